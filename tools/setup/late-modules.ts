/**
 * Has a program load modules of Node when it first uses them: with the first word of `tls` Node begins to read all public authorities, which
 * makes a start of Node 20 ms longer and takes 33 of a processor.
 */
import type { Plugin } from 'esbuild';

/** Of what stands in their places. */
export const lateNamespace = 'late-modules';

const names = ['https', 'tls', 'worker_threads', 'zlib'];

export const lateModules: Plugin = {
  name: 'late modules',
  setup: (building) => {
    building.onResolve({ filter: new RegExp(`^(node:)?(${names.join('|')})$`) }, ({ path }) => ({
      path: path.replace('node:', ''),
      namespace: lateNamespace,
    }));
    // What an import copies of a module are its own properties: it has none, and inherits all.
    building.onLoad({ filter: /.*/, namespace: lateNamespace }, ({ path }) => ({
      contents: `module.exports = Object.create(new Proxy({}, {
        get: (_, name) => name === '__esModule' ? undefined : process.getBuiltinModule('${path}')[name],
      }));`,
    }));
  },
};
