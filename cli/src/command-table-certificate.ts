/** The row of `squash certificate`. */
import type { CommandSpec } from './command.ts';

export const certificateCommands: readonly CommandSpec[] = [
  {
    name: 'certificate',
    group: 'daemon',
    summary: 'obtain the wildcard certificate for previews by ACME, or renew it when it ends soon',
    positionals: [],
    flags: [
      {
        name: 'dns-hook',
        value: 'PROGRAM',
        kind: 'file',
        summary: 'called as PROGRAM present|cleanup NAME VALUE: sets and removes the TXT record',
      },
      {
        name: 'dns-wait',
        value: 'SECONDS',
        summary: 'how long the name servers take when the hook has ended (default 30)',
      },
      { name: 'agree-tos', summary: 'make an account, and agree to the authority’s terms' },
      { name: 'email', value: 'ADDRESS', summary: 'where the authority writes to' },
      { name: 'directory', value: 'URL', summary: 'of the authority (default: Let’s Encrypt)' },
      { name: 'staging', summary: 'Let’s Encrypt’s authority for tries, which no browser trusts' },
      {
        name: 'ca',
        value: 'FILE',
        kind: 'file',
        summary: 'trust these authorities (PEM) for the directory, and no others',
      },
      { name: 'eab-kid', value: 'ID', summary: 'external account binding: the key’s id' },
      {
        name: 'eab-key',
        value: 'FILE',
        kind: 'file',
        summary: 'external account binding: a file with the key, as the authority gave it',
      },
      {
        name: 'days',
        value: 'N',
        summary: 'renew when less than N days are left (default: a third of its lifetime)',
      },
      { name: 'force', summary: 'renew whatever is left' },
    ],
    notes: `For *.SQUASH_PREVIEW_DOMAIN, into SQUASH_DATA; see docs/ports.md. To be called daily: where nothing is to be
done it says so and ends with 0. It needs no daemon, and a running one takes the new certificate within seconds.`,
    load: () => import('./commands/certificate.ts'),
  },
];
