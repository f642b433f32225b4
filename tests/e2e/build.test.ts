/** `squash build`: images from Dockerfiles, each step in a sandbox, and done again only where something before it has changed. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { Image } from '@squash/contract/image';
import { squash, squashOk, startCli } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { isSingleId } from '../support/data-session.ts';
import { waitFor } from '../support/wait.ts';

let daemon: TestDaemon;
let directory: string;

before(async () => {
  daemon = await TestDaemon.start();
  directory = mkdtempSync(join(tmpdir(), 'squash-build-'));
  await squashOk(daemon, ['create', 'base', '--layers', '000-base-test']);
  const files =
    'echo app:x:77:78::/home/app:/bin/sh >>/etc/passwd; echo team:x:79: >>/etc/group; mkdir -p /home/app';
  await squashOk(daemon, ['exec', 'base', '--', 'sh', '-c', files]);
  await squashOk(daemon, ['image', 'commit', 'base', 'base:1', '--env', 'BASE=yes']);
  await squashOk(daemon, ['rm', 'base']);
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

let contexts = 0;
/** A context with these files; a name that ends with a slash is a directory. */
function contextOf(files: Readonly<Record<string, string>>): string {
  const context = join(directory, `context-${(contexts += 1)}`);
  for (const [name, content] of Object.entries(files)) {
    const path = join(context, name);
    mkdirSync(name.endsWith('/') ? path : dirname(path), { recursive: true });
    if (!name.endsWith('/')) writeFileSync(path, content);
  }
  return context;
}

async function build(
  context: string,
  ...words: string[]
): Promise<{ image: Image; steps: string[]; output: string }> {
  const ended = await squash(daemon, ['build', '--json', ...words, context]);
  const output = ended.stderr.toString();
  assert.equal(ended.code, 0, output);
  const steps = [...output.matchAll(/^\[\d+\] (CACHED|done)/gm)].map(([, how = '']) => how);
  return { image: JSON.parse(ended.stdout.toString()) as Image, steps, output };
}

const runIn = (image: string, ...words: string[]): Promise<string> =>
  squashOk(daemon, ['run', '--image', image, ...words]);

test('every instruction, and a changed line does again only what follows', async () => {
  const dockerfile = (third: string): string => `# comment
ARG VERSION=1
FROM base:\${VERSION} AS one
ARG WHO=nobody
ENV GREETING="hello $WHO" OTHER=\${MISSING:-default}
ARG OTHER=argument
WORKDIR /srv/app
COPY . .
COPY --chown=app:team --chmod=640 tool.txt /opt/deep/
RUN echo "$GREETING" >greeting && \\
    # a comment in the middle
    echo $WHO >who
RUN ${third}
RUN <<EOF
set -e
test "$OTHER" = default
echo "from a document" >/document
EOF
COPY <<"A" <<B /texts/
plain $WHO
A
with "$WHO"
B
ADD --chown=app packed.tar.gz /packed
USER app
RUN echo inside && test -O /packed/inside
LABEL made.by="a test"
EXPOSE 80
ENTRYPOINT ["cat"]
CMD ["greeting"]
`;
  const context = contextOf({
    Dockerfile: dockerfile('echo third >/third'),
    '.dockerignore': 'ignored*\n!ignored-not\n.dockerignore\n**/*.log\n',
    'tool.txt': 'tool',
    'ignored.txt': '',
    'ignored-not': '',
    'sub/deep.log': '',
    'sub/kept': 'kept',
    'empty/': '',
  });
  symlinkSync('sub/kept', join(context, 'link'));
  execFileSync('sh', ['-c', 'mkdir p; echo in >p/inside; tar -C p -czf packed.tar.gz .; rm -r p'], {
    cwd: context,
  });
  const first = await build(context, '-t', 'built:1', '--build-arg', 'WHO=world');
  assert.deepEqual(
    first.steps,
    Array.from({ length: 9 }, () => 'done'),
  );
  assert.match(first.output, /note: line 28: EXPOSE/);
  const { env, user, uid, gid, workdir, entrypoint, cmd, labels } = first.image;
  assert.deepEqual(
    { env, user, uid, gid, workdir, entrypoint, cmd, labels },
    {
      env: { BASE: 'yes', GREETING: 'hello world', OTHER: 'default' },
      user: 'app',
      uid: 77,
      gid: 78,
      workdir: '/srv/app',
      entrypoint: ['cat'],
      cmd: ['greeting'],
      labels: { 'made.by': 'a test' },
    },
  );
  assert.equal(await squashOk(daemon, ['run', '--image', 'built:1']), 'hello world');
  const look =
    'find . | sort; cat link who /third /document /texts/A /texts/B; stat -c "%a" /opt/deep/tool.txt';
  assert.equal(
    await runIn('built:1', 'sh', '-c', look),
    './Dockerfile ./empty ./greeting ./ignored-not ./link ./packed.tar.gz ./sub ./sub/kept ./tool.txt ./who'
      .split(' ')
      .join('\n')
      .replace('./Dockerfile', '.\n./Dockerfile') +
      '\nkeptworld\nthird\nfrom a document\nplain $WHO\nwith "world"\n640',
  );

  const again = await build(context, '-t', 'built:1', '--build-arg', 'WHO=world');
  assert.deepEqual(again.steps, ['done', ...Array.from({ length: 8 }, () => 'CACHED')]);
  assert.deepEqual(again.image.modules, first.image.modules);
  writeFileSync(join(context, 'Dockerfile'), dockerfile('echo other >/third'));
  // The Dockerfile is in the context, too: it is copied.
  writeFileSync(join(context, '.dockerignore'), 'Dockerfile\n.dockerignore\n');
  await build(context, '-t', 'built:2');
  writeFileSync(join(context, 'Dockerfile'), dockerfile('echo changed >/third'));
  const changed = await build(context, '-t', 'built:2');
  assert.deepEqual(changed.steps, [
    'done',
    'CACHED',
    'CACHED',
    'CACHED',
    'done',
    'done',
    'done',
    'done',
    'done',
  ]);
  assert.equal(await runIn('built:2', 'cat', '/third', '/srv/app/who'), 'changed\nnobody');
  writeFileSync(join(context, 'tool.txt'), 'another tool');
  assert.equal((await build(context)).steps.filter((step) => step === 'CACHED').length, 0);
});

test('stages: only what the target needs, files from one to the other, and nothing from scratch', async () => {
  const context = contextOf({
    Dockerfile: `FROM base:1 AS tools
RUN mkdir -p /out/bin && echo tool >/out/bin/tool && chmod 755 /out/bin/tool && ln -s tool /out/bin/alias
WORKDIR /data/later
RUN chown 77:78 /out/bin/tool || grep -q ' 1$' /proc/self/uid_map
WORKDIR /out/last
FROM base:1 AS unused
RUN exit 3
FROM scratch AS last
COPY --from=tools /out/ /
COPY --from=tools /out/bin/tool /etc/tool.conf
COPY --from=base:1 /etc/passwd /etc/
ENV PATH=/bin
CMD ["/bin/tool"]
`,
  });
  const { image, steps } = await build(context, '-t', 'last');
  assert.equal(steps.length, 7);
  assert.deepEqual([image.cmd, image.env], [['/bin/tool'], { PATH: '/bin' }]);
  const failed = await squash(daemon, ['build', '--target', 'unused', context]);
  assert.equal(failed.code, 1);
  assert.match(failed.stderr.toString(), /Dockerfile:7: RUN ended with 3: exit 3 \(build_failed\)/);
  await squashOk(daemon, ['create', '--name', 'look', '--image', 'last']);
  const listed = JSON.parse(await squashOk(daemon, ['ls', '--json'])) as { id: string; name: string }[];
  const id = listed.find(({ name }) => name === 'look')?.id ?? '';
  // A directory that the other stage has only said.
  assert.match(await squashOk(daemon, ['files', 'ls', '-q', id, '/']), /^last$/m);
  assert.equal(await squashOk(daemon, ['files', 'cat', id, '/etc/tool.conf']), 'tool');
  assert.match(await squashOk(daemon, ['files', 'ls', id, '/bin']), /alias -> tool[\s\S]*755/);
  await squashOk(daemon, ['rm', id]);
});

test('a secret is seen by its command and is in no layer; a cache outlives the build', async () => {
  const context = contextOf({
    Dockerfile: `FROM base:1
RUN --mount=type=secret,id=key cat /run/secrets/key | tr a-z A-Z >/seen
RUN --mount=type=secret,id=key,env=KEY,target=/root/.key test "$KEY" = "$(cat /root/.key)"
RUN --mount=type=cache,target=/var/cache/x echo line >>/var/cache/x/lines; wc -l </var/cache/x/lines >/count
`,
    'key.txt': 'canary-of-the-build',
    '.dockerignore': '*',
  });
  const secret = `id=key,src=${join(context, 'key.txt')}`;
  await build(context, '-t', 'secret', '--secret', secret);
  assert.equal(
    await runIn('secret', 'sh', '-c', 'cat /seen; ls -A /run /root; cat /count'),
    'CANARY-OF-THE-BUILD/root:\n\n/run:\n1'.replace('/root:\n\n/run:\n', await emptyLists()),
  );
  const again = await build(context, '-t', 'secret', '--secret', secret, '--no-cache');
  assert.deepEqual([...new Set(again.steps)], ['done']);
  assert.equal(await runIn('secret', 'cat', '/count'), '2');
  const layers = join(directory, 'layers');
  mkdirSync(layers);
  for (const file of readdirSync(join(daemon.dataDir, 'modules')).filter((name) =>
    /^oci-.*squashfs$/.test(name),
  ))
    execFileSync('unsquashfs', [
      '-q',
      '-n',
      '-no-xattrs',
      '-f',
      '-d',
      join(layers, file),
      join(daemon.dataDir, 'modules', file),
    ]);
  const found = execFileSync('sh', ['-c', `grep -rl canary-of-the-build ${layers} || true`]).toString();
  assert.equal(found, '');
  assert.match(execFileSync('sh', ['-c', `grep -rl CANARY-OF-THE-BUILD ${layers}`]).toString(), /seen/);
});

/** What \`ls -A\` says of both in the image below. */
async function emptyLists(): Promise<string> {
  return `${await runIn('base:1', 'sh', '-c', 'ls -A /run /root')}\n`;
}

test('what is built is a module, and the same tree as buildah’s of the same Dockerfile', async (context) => {
  const place = contextOf({
    Dockerfile: `FROM base:1
WORKDIR /srv
COPY --chmod=750 tree tree/
COPY tree/a tree/b* tree/link /picked/
ADD packed.tar /unpacked
ADD plain.gz /plain/
RUN rm tree/a && mkdir -p /made && ln /srv/tree/b1 /made/hard && chmod 711 /made
RUN rm -r /picked && mkdir /picked && echo new >/picked/only
`,
    'tree/a': 'a',
    'tree/b1': 'b1',
    'tree/b2': 'b2',
  });
  symlinkSync('b2', join(place, 'tree/link'));
  writeFileSync(join(place, 'plain.gz'), gzipSync('no archive'));
  execFileSync('tar', ['-C', join(place, 'tree'), '-cf', join(place, 'packed.tar'), '.']);
  await squashOk(daemon, ['module', 'from-dockerfile', place, '300-built']);
  await squashOk(daemon, ['create', 'built', '--layers', '300-built']);
  assert.equal(await squashOk(daemon, ['exec', 'built', '--', 'cat', '/picked/only']), 'new');
  await squashOk(daemon, ['rm', 'built']);
  if (process.getuid?.() !== 0) return context.diagnostic('buildah wants ids: not compared');
  await squashOk(daemon, ['build', '-q', '-t', 'same:1', place]);
  const store = [
    '--root',
    join(directory, 'store'),
    '--runroot',
    join(directory, 'run'),
    '--storage-driver',
    'vfs',
  ];
  const buildah = (...words: string[]): string =>
    execFileSync('buildah', [...store, ...words], { encoding: 'utf8', stdio: 'pipe' });
  const archive = join(directory, 'base.tar');
  await squashOk(daemon, ['image', 'export', 'base:1', archive]);
  const base = buildah('pull', `oci-archive:${archive}`).trim();
  buildah('tag', base, 'base:1');
  buildah('bud', '--isolation', 'chroot', '--layers=false', '--pull-never', '-t', 'same:1', place);
  const ours = join(directory, 'ours.tar');
  const theirs = join(directory, 'theirs.tar');
  await squashOk(daemon, ['image', 'export', 'same:1', ours]);
  buildah('push', 'same:1', `oci-archive:${theirs}:same:1`);
  assert.deepEqual(treeOf(ours, 'ours'), treeOf(theirs, 'theirs'));
});

/** What umoci unpacks: a line for each entry, without times. */
function treeOf(archive: string, name: string): readonly string[] {
  const layout = join(directory, `layout-${name}`);
  execFileSync('skopeo', ['copy', `oci-archive:${archive}`, `oci:${layout}:one`], { stdio: 'pipe' });
  execFileSync('umoci', ['unpack', '--image', `${layout}:one`, join(directory, name)], { stdio: 'pipe' });
  const format = '%P %y %m %U:%G %n %l\n';
  const found = execFileSync('find', [join(directory, name, 'rootfs'), '-printf', format], {
    encoding: 'utf8',
  });
  const sums = execFileSync('sh', ['-c', 'find . -type f -exec sha256sum {} +'], {
    cwd: join(directory, name, 'rootfs'),
    encoding: 'utf8',
  });
  // A RUN of buildah leaves the place that it shows a name at.
  return [...found.split('\n'), ...sums.split('\n')].filter((line) => !line.includes('etc/hostname')).sort();
}

test('a build that is broken off, or fails, leaves no sandbox', async () => {
  const context = contextOf({ Dockerfile: 'FROM base:1\nRUN echo begun; sleep 600\n' });
  const child = startCli(daemon, ['build', context], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr?.on('data', (piece: Buffer) => (said += piece.toString()));
  await waitFor('the step runs', () => Promise.resolve(said.includes('\nbegun')));
  child.kill('SIGINT');
  const [code] = (await once(child, 'close')) as [number];
  assert.deepEqual([code, await squashOk(daemon, ['ls', '-q'])], [130, '']);
});

test('what is not supported, wrong or outside the context is refused by name and line', async () => {
  const outside = contextOf({ secret: 'canary' });
  const refused = async (
    dockerfile: string,
    prepare: (context: string) => void = () => undefined,
  ): Promise<string> => {
    const context = contextOf({ Dockerfile: dockerfile });
    prepare(context);
    const ended = await squash(daemon, ['build', context]);
    assert.equal(ended.code, 1, dockerfile);
    return ended.stderr.toString().trim().split('\n').at(-1) ?? '';
  };
  const from = (line: string): string => `FROM base:1\n${line}\n`;
  const cases: readonly [string, RegExp][] = [
    ['RUN echo', /^squash: Dockerfile:1: RUN stands before the first FROM \(dockerfile_invalid\)/],
    [from('BOGUS x'), /:2: "BOGUS" is no instruction/],
    [from('ONBUILD RUN x'), /:2: ONBUILD.*\(dockerfile_unsupported\)/],
    [from('RUN --mount=type=ssh true'), /:2: RUN --mount=type=ssh/],
    [from('RUN --network=host true'), /:2: RUN --network=host/],
    [from('RUN --security=insecure true'), /:2: RUN --security=insecure/],
    [from('COPY --parents a b'), /:2: COPY --parents/],
    [from('ADD https://x.test/a /'), /:2: ADD https:\/\/x.test\/a/],
    [from('COPY a'), /:2: COPY takes/],
    [
      from('COPY ../../etc/passwd /'),
      /:2: "..\/..\/etc\/passwd" leads out of the context \(context_invalid\)/,
    ],
    [from('COPY nothing /'), /:2: "nothing" is not in the context/],
    [from('COPY --chown=stranger Dockerfile /'), /:2: --chown=stranger/],
    [from('ENV A'), /:2: ENV takes NAME=VALUE/],
    [from('COPY --from=$X /a /'), /:2: COPY --from takes no variables/],
    [from('COPY --from=base:1 --chmod=700 /etc /x'), /:2: COPY --from --chmod of all/],
    [
      'FROM base:1 AS a\nCOPY --from=late /a /\nFROM base:1 AS late\nFROM a',
      /:2: stage "late" does not stand above/,
    ],
    [from('COPY --from=typo /a /'), /:2: can't have the image "typo": no stage above is called so/],
    [from('ENV A=${B:?is needed}'), /:2: B is not set: is needed/],
    [from('ENV A="x'), /:2: a " is not closed/],
    ['FROM --platform=linux/s390x base:1', /:1: FROM --platform=linux\/s390x/],
    ['FROM base:1\nRUN <<EOF\nno end', /:2: the here-document <<EOF has no end/],
    ['ARG X\nFROM $X', /:2: FROM names no image/],
  ];
  for (const [dockerfile, message] of cases) assert.match(await refused(dockerfile), message);
  // Where there is one id, everybody is that one.
  if (!(await isSingleId(daemon)))
    assert.match(await refused(from('USER stranger\nRUN true')), /:3: .*"stranger".*\(user_not_found\)/);
  assert.match(
    await refused(from('COPY way /'), (context) =>
      symlinkSync(join(outside, 'secret'), join(context, 'way')),
    ),
    /:2: "way" is a link that leads out/,
  );
  assert.match(
    await refused(from('COPY up/secret /'), (context) => symlinkSync(outside, join(context, 'up'))),
    /:2: "up\/secret" is a link that leads out/,
  );
  assert.match(
    await refused(from('COPY . /'), (context) => execFileSync('mkfifo', [join(context, 'fifo')])),
    /:2: "fifo" is no file, directory or symlink/,
  );
  const hidden = (context: string): void => {
    writeFileSync(join(context, '.dockerignore'), '.env\nsecrets\n');
    writeFileSync(join(context, '.env'), 'canary');
    mkdirSync(join(context, 'secrets'));
    writeFileSync(join(context, 'secrets/key'), 'canary');
    symlinkSync('.env', join(context, 'pub'));
    symlinkSync('secrets', join(context, 'd'));
  };
  for (const word of ['pub', 'd/key', 'd'])
    assert.match(await refused(from(`COPY ${word} /x`), hidden), /:2: "\S+" is not in the context/);
  // Before anything is done.
  const late = await squash(daemon, [
    'build',
    contextOf({ Dockerfile: from('RUN sleep 60\nCOPY missing /') }),
  ]);
  assert.match(late.stderr, /^squash: Dockerfile:3: "missing" is not in the context/);
  assert.match(
    (await squash(daemon, ['build', '-t', 'Bad Name', outside])).stderr,
    /^squash: --tag "Bad Name" is no name/,
  );
  assert.equal(
    (
      await squash(undefined, ['build', outside], {
        env: { SQUASH_DATA: join(directory, 'no'), SQUASH_PORT: 'off' },
      })
    ).code,
    3,
  );
  assert.match(
    (await squash(daemon, ['build', join(directory, 'no')])).stderr,
    /can't read the context .*: there is none/,
  );
  // A link below what is copied is a link there, and leads nowhere.
  const context = contextOf({ 'd/kept': '' });
  symlinkSync(join(outside, 'secret'), join(context, 'd/way'));
  writeFileSync(join(context, 'd/new\nline'), 'x');
  const dockerfile = `${from('ENV PATH=/opt/bin:$PATH')}COPY d /d\nRUN printf 'a\\tb\\rc\\033[1m\\n'; test -L /d/way && ! cat /d/way`;
  const ended = await squash(daemon, ['build', '-f', '-', '--build-arg', 'NONE=1', '--json', context], {
    input: dockerfile,
  });
  assert.equal(ended.code, 0, ended.stderr);
  assert.match(ended.stderr, /^note: no ARG is called "NONE"$[^]*^a\tb\nc\\u\{1b\}\[1m$/m);
  const image = JSON.parse(ended.stdout.toString()) as Image;
  assert.equal(await runIn(image.name, 'sh', '-c', 'cat "/d/new\nline"'), 'x');
  assert.equal((await squash(daemon, ['build', '--prune'])).code, 0);
  assert.doesNotMatch(await squashOk(daemon, ['image', 'ls', '-qa']), /squash\.build/);
});
