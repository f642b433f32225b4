/** What the kernel offers of the web beside Node's own, which is the standard's: the same answers, for what people write and for anything else. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { capturePrimordials } from '../primordials.ts';
import { cloneValue } from './clone.ts';
import { decodeBase64, encodeBase64, TextDecoder as OwnDecoder, TextEncoder as OwnEncoder } from './text.ts';
import { URL as UntypedUrl, URLSearchParams as OwnParams } from './url.ts';

UntypedUrl.link(OwnParams.parts());
const OwnUrl = UntypedUrl as unknown as typeof URL;
const members = 'href origin protocol username password host hostname port pathname search hash'.split(' ');

function partsOf(make: typeof URL, given: string, base?: string): unknown {
  try {
    const url = new make(given, base);
    return [...members.map((name) => Reflect.get(url, name)), [...url.searchParams]];
  } catch {
    return 'invalid';
  }
}

const bases = [
  undefined,
  'http://a/b/c/d;p?q#f',
  'https://user:pw@example.com:8080/x/y/../z',
  'file:///C:/dir/file',
  'file:///home/x',
  'mailto:a@b',
  'git://host/path/sub',
  'web+demo:/.//not-a-host/',
];

it('URL reads what people write as Node does', () => {
  const written = [
    'g',
    './g',
    'g/',
    '/g',
    '//g',
    '?y',
    'g?y',
    '#s',
    '',
    '.',
    '..',
    '../..',
    '../../../g',
    '/./g',
    'g;x=1/../y',
    'http:g',
    'http://EXAMPLE.com:80/%7Efoo/../a b?x=1 2&y=ü#ä ö',
    'HTTPS://münchen.de/straße',
    'http://☃.net/',
    'http://faß.de/',
    'http://日本語.jp',
    'http://[::1]:3000/',
    'http://[2001:db8:0:0:1:0:0:1]/',
    'http://[::ffff:1.2.3.4]',
    'http://[1::2::3]',
    'http://[1:2:3:4:5:6:7:8:9]',
    'http://192.168.0.1/',
    'http://0x7f.1/',
    'http://0300.1.2.3',
    'http://256.1.1.1',
    'http://1.2.3.4.5',
    'http://4294967295',
    'http://09.1',
    'http://a:b@c:d@e/',
    'http://user@/x',
    'http://:80',
    'http://a:99999',
    'http://a:0080',
    'http://a b',
    'http://a%41',
    'http://a%00b',
    'http://',
    'file:c:\\foo\\bar',
    'file://host/share',
    'file:///./x',
    'file:/C|/x/..',
    'file://localhost/a',
    '/C:/x',
    'C|/x',
    'file:..',
    'mailto:a@b?subject=x',
    'data:text/plain,a b#c',
    'javascript:alert(1)',
    'non-special://host:80/p?q',
    'foo:/a/../b',
    'foo:///',
    'foo://:80',
    'blob:https://a/b',
    'http:\\\\a\\b',
    'http:////a',
    'ht\ntp://a',
    '  http://a  ',
    'http://a/%2e%2E/b',
    'http://a/b/%2e',
    'http://a?b?c#d#e',
    '?',
    '#',
    'http://a/{}`^|',
    "http://a/?'",
  ];
  for (const base of bases)
    for (const given of written)
      assert.deepEqual(partsOf(OwnUrl, given, base), partsOf(URL, given, base), `${given} on ${base}`);
});

it('URL reads anything as Node does', () => {
  const pieces = fc.constantFrom(
    'http:',
    'https:',
    'file:',
    'foo:',
    '//',
    '/',
    '\\',
    '.',
    '..',
    '%2e',
    'a',
    'B',
    '1',
    '0x',
    ':',
    '@',
    '?',
    '#',
    '[',
    ']',
    '::1',
    '%',
    '%41',
    ' ',
    '\t',
    '&',
    '=',
    '+',
    '|',
    'C|',
    'é',
    '😀',
    '"',
    "'",
    '<',
    '^',
    '~',
    '\0',
    ';',
    '80',
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 10 }), fc.constantFrom(...bases), (given, base) => {
      const text = given.join('');
      assert.deepEqual(
        partsOf(OwnUrl, text, base),
        partsOf(URL, text, base),
        `${JSON.stringify(text)} on ${base}`,
      );
    }),
    { numRuns: 5000 },
  );
});

it('URL takes parts of itself as Node does', () => {
  const values = [
    '',
    'x',
    'https',
    'ftp:',
    'file',
    'a.b:81',
    '[::1]',
    'a b',
    '/p/../q',
    '?a=1',
    '#h',
    '80',
    '99999',
    '8x',
    'ü',
    'a@b',
    'a/b',
    '..',
  ];
  for (const start of ['https://user:pw@example.com:8080/a/b?c=1#d', 'file:///x/y', 'foo://h/p', 'mailto:x'])
    for (const name of members.filter((member) => member !== 'origin'))
      for (const value of values) {
        const [own, theirs] = [new OwnUrl(start), new URL(start)];
        for (const url of [own, theirs])
          try {
            Reflect.set(url, name, value);
          } catch {
            // Both are compared as they are then.
          }
        assert.equal(own.href, theirs.href, `${start}: ${name} = ${value}`);
        assert.deepEqual([...own.searchParams], [...theirs.searchParams]);
      }
});

it('URLSearchParams reads, writes and changes as Node’s', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 30 }), fc.string({ maxLength: 5 }), (text, name) => {
      const [own, theirs] = [new OwnParams(text), new URLSearchParams(text)];
      for (const params of [own, theirs]) {
        params.append(name, text);
        params.set('a', 'ü +&');
        params.sort();
      }
      assert.equal(`${own}`, `${theirs}`);
      assert.deepEqual([...own], [...theirs]);
    }),
  );
  const url = new OwnUrl('http://a/?x=1');
  url.searchParams.append('y', '2 3');
  assert.equal(url.href, 'http://a/?x=1&y=2+3');
  url.search = '?z=9';
  assert.equal(url.searchParams.get('z'), '9');
});

it('TextEncoder and TextDecoder do as Node’s with any text and any bytes, in pieces too', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) =>
      assert.deepEqual(new OwnEncoder().encode(text), new Uint8Array(new TextEncoder().encode(text))),
    ),
  );
  const byte = fc.oneof(
    fc.nat(255),
    fc.constantFrom(0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0xed, 0xa0, 0xef, 0xbb, 0xbf),
  );
  fc.assert(
    fc.property(fc.array(byte, { maxLength: 12 }), fc.nat(12), fc.boolean(), (bytes, cut, fatal) => {
      const decode = (make: typeof TextDecoder) => {
        const decoder = new make('utf-8', { fatal });
        try {
          const all = new Uint8Array(bytes);
          return `${decoder.decode(all.subarray(0, cut), { stream: true })}${decoder.decode(all.subarray(cut))}|${decoder.decode(all)}`;
        } catch (failure) {
          return (failure as Error).name;
        }
      };
      assert.equal(decode(OwnDecoder as unknown as typeof TextDecoder), decode(TextDecoder));
    }),
    { numRuns: 2000 },
  );
});

it('atob and btoa do as Node’s', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('A', 'z', '+', '/', '=', ' ', 'é', '\n', '9') }),
      (text) => {
        const outcome = (work: (given: string) => string) => {
          try {
            return work(text);
          } catch (failure) {
            return (failure as Error).name;
          }
        };
        assert.equal(outcome(decodeBase64), outcome(atob));
        assert.equal(outcome(encodeBase64), outcome(btoa));
      },
    ),
    { numRuns: 1000 },
  );
});

it('structuredClone() does as Node’s', () => {
  const p = capturePrimordials();
  const values = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withTypedArray: true,
    withSparseArray: true,
  });
  fc.assert(
    fc.property(values, (value) => assert.deepStrictEqual(cloneValue(p, value), structuredClone(value))),
  );
  const cycle: { self?: unknown; list: unknown[] } = { list: [] };
  cycle.self = cycle;
  cycle.list.push(cycle, /a/giu, new RangeError('x', { cause: cycle }));
  const copy = cloneValue(p, cycle) as typeof cycle;
  assert.equal(copy.self, copy);
  assert.deepEqual(copy.list[1], /a/giu);
  assert.ok(copy.list[2] instanceof RangeError && copy.list[2].cause === copy);
  const view = new Uint8Array([1, 2, 3]).subarray(1);
  const both = cloneValue(p, { view, buffer: view.buffer }, { transfer: [view.buffer] }) as {
    view: Uint8Array;
    buffer: ArrayBuffer;
  };
  assert.deepEqual([[...both.view], both.view.buffer === both.buffer, view.byteLength], [[2, 3], true, 0]);
  for (const refused of [() => 1, Symbol('x'), { f() {} }, Promise.resolve(1), new WeakMap()])
    assert.throws(() => cloneValue(p, refused), { name: 'DataCloneError' });
});
