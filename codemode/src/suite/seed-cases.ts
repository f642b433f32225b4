/** The eight tests that the original's hardening report names, under their names. */
import { attempts, type Case, fails, nothingEscaped, returns } from './case.ts';

export const seedCases: readonly Case[] = [
  {
    name: 'should not allow eval',
    code: 'return eval("1+1")',
    expect: fails('runtime', /eval is not allowed/),
  },
  {
    name: 'should not allow constructor to escape',
    code: 'return Function("return process")()',
    expect: fails('runtime', /Function constructor is not allowed/),
  },
  {
    name: 'should block prototype pollution',
    code: `try { Object.assign(Object.prototype, { polluted: true }) } catch {}
try { Object.prototype.polluted = true } catch {}
try { ({}).__proto__.polluted = true } catch {}
try { Array.prototype.push = () => 'hijacked' } catch {}
const obj = {};
return [obj.polluted, [].polluted, [1].push(2)]`,
    expect: returns([undefined, undefined, 2]),
  },
  {
    name: 'should not allow access to require',
    code: 'return require("node:fs")',
    expect: fails('runtime', /require/),
  },
  {
    name: 'should not allow process access',
    code: 'return process.env',
    expect: fails('runtime', /process/),
  },
  {
    name: 'should not allow network access',
    code: attempts(
      "fetch('http://127.0.0.1:1')",
      "require('node:http').get('http://127.0.0.1:1')",
      "new WebSocket('ws://127.0.0.1:1')",
      'new XMLHttpRequest()',
      'new EventSource("http://127.0.0.1:1")',
    ),
    expect: nothingEscaped,
  },
  {
    name: 'should not allow low-level socket network access',
    code: attempts(
      "new (require('net').Socket)()",
      "require('dgram').createSocket('udp4')",
      "require('tls').connect(1)",
      "require('dns').lookup('localhost', () => {})",
      'Deno.connect({ port: 1 })',
      "process.binding('tcp_wrap')",
    ),
    expect: nothingEscaped,
  },
  {
    name: 'should not allow Deno namespace',
    code: attempts(
      "Deno.readTextFile('/etc/passwd')",
      'Deno.env.get("HOME")',
      'globalThis.Deno',
      'globalThis["De" + "no"]',
      'Deno[Deno.internal]',
    ),
    expect: nothingEscaped,
  },
];
