/** Has a program's own modules find `contract/src/late-zod.ts` under the name of zod. */
import { join } from 'node:path';
import type { Plugin } from 'esbuild';

const stand = join(import.meta.dirname, '../../contract/src/late-zod.ts');

export const lateZod: Plugin = {
  name: 'late zod',
  setup: (building) => {
    // It has zod itself, and so have packages.
    building.onResolve({ filter: /^zod$/ }, ({ importer }) =>
      importer === stand || importer.includes('/node_modules/') ? undefined : { path: stand },
    );
    // Messages in all languages, of which it takes English by itself.
    building.onLoad({ filter: /\/zod\/v4\/locales\/index\.js$/ }, () => ({ contents: 'export {};' }));
  },
};
