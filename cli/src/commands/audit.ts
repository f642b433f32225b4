/** `squash audit`: who asked for what, and whether he might. */
import type { AuditEntry, AuditList } from '@squash/contract/audit';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { momentOf } from '../moment.ts';
import { printJson } from '../output/print.ts';
import { printTable, type Style } from '../output/table.ts';

const limitDefault = 100;

export async function run(call: Call): Promise<number> {
  const items = await entries(call, call.flags.integer('limit', { min: 1, max: 1_000_000 }) ?? limitDefault);
  if (call.json) printJson({ items, next: null });
  else {
    printTable<AuditEntry>(
      [
        { title: 'TIME', text: (each) => each.at },
        { title: 'CALLER', text: callerText },
        { title: 'PEER', text: ({ peer }) => (peer.uid === null ? peer.address : `uid ${peer.uid}`) },
        { title: 'OPERATION', text: operationText },
        { title: 'SANDBOX', text: (each) => each.sandbox ?? '' },
        { title: 'STATUS', text: (each) => `${each.status}`, align: 'right' },
        { title: 'DECISION', text: decisionText, style: decisionStyle },
      ],
      items,
    );
  }
  return exitCodes.ok;
}

/** A page may be empty and not the last one: the daemon looks through so many bytes for each. */
async function entries({ client, flags }: Call, limit: number): Promise<readonly AuditEntry[]> {
  const since = flags.text('since');
  const filters = {
    owner: flags.text('owner'),
    sandbox: flags.text('sandbox'),
    operation: flags.text('operation'),
    decision: flags.isSet('refused') ? 'refused' : undefined,
    of: flags.isSet('agents') ? 'agents' : undefined,
    since: since === undefined ? undefined : momentOf(since, -1, 'since'),
  };
  const items: AuditEntry[] = [];
  let cursor: string | undefined;
  do {
    const rest = Math.min(1_000, limit - items.length);
    const page: AuditList = await client.get(apiPath(['v1', 'audit'], { ...filters, limit: rest, cursor }));
    items.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined && items.length < limit);
  return items;
}

function callerText({ caller }: AuditEntry): string {
  if (caller.kind === 'agent') return `agent of ${caller.group}, run ${caller.run}`;
  return caller.kind === 'key' ? `${caller.owner}/${caller.name}` : caller.kind;
}

function operationText({ operation, stage, action }: AuditEntry): string {
  const number = action === undefined || action === null ? '' : ` ${action}`;
  return stage === 'whole' ? `${operation ?? '-'}${number}` : `${operation ?? '-'} ${stage}`;
}

function decisionText({ decision, code, dropped, lost, rule }: AuditEntry): string {
  const more = [
    ...(rule === undefined ? [] : [rule]),
    ...(dropped === undefined ? [] : [`${dropped} more refused before`]),
    ...(lost === undefined ? [] : [`${lost} lost before`]),
  ];
  return [code === null ? decision : `${decision}: ${code}`, ...more].join('; ');
}

function decisionStyle({ decision }: AuditEntry): Style | undefined {
  if (decision === 'held') return 'yellow';
  return decision === 'refused' ? 'red' : undefined;
}
