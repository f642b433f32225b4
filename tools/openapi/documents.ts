/** The generated parts of `docs/`: tables of settings and error codes. */
import { type Setting, type SettingKind, settings } from '@squash/contract/config';
import { errorCatalog, errorStatus, type ErrorCode } from '@squash/contract/errors';

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |\n`;
  return line(head) + line(head.map(() => '---')) + rows.map(line).join('');
}

const groups: readonly [Setting['origin'], string][] = [
  ['original', 'Variables of the original'],
  ['squash', 'New variables'],
  ['client', 'Read by the command line only'],
  ['test', 'For the test suites'],
];

export function configurationTable(): string {
  const all: readonly Setting[] = settings;
  return groups
    .map(([origin, title]) => {
      const rows = all
        .filter((setting) => setting.origin === origin)
        .map((setting) => [
          `\`${setting.name}\``,
          defaultText(setting),
          kindText(setting.kind),
          meaningText(setting),
        ]);
      return `### ${title}\n\n${table(['variable', 'default', 'values', 'meaning'], rows)}`;
    })
    .join('\n');
}

function defaultText(setting: Setting): string {
  return setting.defaultIs ?? (setting.default === '' ? 'empty' : `\`${setting.default}\``);
}

function kindText(kind: SettingKind): string {
  switch (kind.type) {
    case 'integer':
      return `${kind.min} to ${kind.max}`;
    case 'choice':
      return kind.choices.map((choice) => `\`${choice}\``).join(', ');
    case 'port':
      return '0 to 65535, or `off`';
    case 'flag':
      return '`1` or `0`';
    case 'bucket':
      return 'name';
    case 'url':
      return 'address';
    case 'domain':
      return 'name';
    case 'registries':
      return 'hosts, comma-separated';
    case 'hosts':
      return 'names, comma-separated';
    case 'servers':
      return 'addresses, comma-separated';
    case 'ranges':
      return 'ranges, comma-separated';
    case 'host':
      return 'address or name';
    case 'path':
    case 'secret':
    case 'text':
      return kind.type;
  }
}

function meaningText(setting: Setting): string {
  if (setting.completes !== undefined)
    return `${setting.meaning} No effect without \`${setting.completes}\`.`;
  if (setting.part === undefined) return setting.meaning;
  return `${setting.meaning} **refused**: this Squash does not have ${setting.part}.`;
}

const retryText = {
  never: 'no: the same request fails again',
  later: 'yes, later (`Retry-After`)',
  'after-change': 'once what the message names is mended',
} as const;

export function errorsTable(): string {
  const rows = (Object.keys(errorCatalog) as ErrorCode[]).map((code) => [
    `\`${code}\``,
    String(errorStatus(code, 'seed')),
    String(errorStatus(code, 'native')),
    errorCatalog[code].summary,
    errorCatalog[code].remedy,
    retryText[errorCatalog[code].retry],
  ]);
  return table(['code', '`/cgi-bin`', '`/v1`', 'meaning', 'remedy', 'worth a retry'], rows);
}
