/**
 * What the sandbox of `squash demo` tries, and how each attempt is judged. Every line of shell runs in a sandbox as it would under
 * an attacker, with nothing but what its base has; where something is missing there the attempt says that it was not made.
 *
 * None of them harms where it gets through: files are opened and not written, loads are bounded.
 */
import type { EgressDecisionInfo } from '@squash/contract/egress';
import type { ProcessResult } from '@squash/contract/process';
import type { Bait } from './bait.ts';

export interface Facts {
  readonly bait: Bait;
  readonly result: ProcessResult;
  /** What the egress process has decided for this sandbox since the attempt began. */
  readonly decisions: readonly EgressDecisionInfo[];
  /** Codes of the sandbox's warnings: what this host can't hold. */
  readonly weaker: ReadonlySet<string>;
  /** What a second sandbox on the same layers says. */
  readonly neighbour: () => Promise<string>;
}

export type Verdict = {
  readonly outcome: 'stopped' | 'succeeded' | 'not_enforced' | 'not_tried';
  readonly by: string;
};

export interface Attempt {
  readonly id: string;
  readonly tried: string;
  readonly script: (bait: Bait) => string;
  /** Not made where the host can't hold it: the machine would have to. */
  readonly limit?: 'memory_limit' | 'pids_limit' | 'upper_limit';
  /** What the sandbox has meanwhile. */
  readonly memoryMb?: number;
  readonly judge: (facts: Facts) => Verdict | Promise<Verdict>;
}

const memoryMb = 64;
const mib = 1_048_576;
const processesMax = 1_500;
/** A sandbox that has done nothing yet has numbers up to here. */
const smallPids = 300;
/** A script's word for: there is no program here to try it with. */
const lacks = 'SQUASH-DEMO-LACKS';
const got = 'SQUASH-DEMO-GOT';

const stopped = (by: string): Verdict => ({ outcome: 'stopped', by });
const succeeded = (by: string): Verdict => ({ outcome: 'succeeded', by });

/** By a text that only the host can have. */
const finds =
  (textOf: (bait: Bait) => string, by: string) =>
  ({ bait, result }: Facts): Verdict =>
    `${result.stdout}${result.stderr}`.includes(textOf(bait)) ? succeeded('it was read') : stopped(by);

/** By the script's own word: it prints `got` where a call that must fail did not. */
const gets =
  (by: string) =>
  ({ result: { stdout } }: Facts): Verdict => {
    if (stdout.includes(got)) return succeeded(lineWith(stdout, got).replace(got, '').trim());
    return stdout.includes(lacks)
      ? {
          outcome: 'not_tried',
          by: `the base has no ${lineWith(stdout, lacks).replace(lacks, '').trim()} to try it with`,
        }
      : stopped(by);
  };

function lineWith(text: string, part: string): string {
  return text.split('\n').find((line) => line.includes(part)) ?? '';
}

/** A system call by its numbers on x86-64 and arm64, with what is there to make it. */
function systemCall(name: string, [x86, arm]: readonly [number, number], words: string): string {
  return `case $(uname -m) in aarch64) n=${arm};; *) n=${x86};; esac
if command -v perl >/dev/null; then perl -e 'exit(syscall(@ARGV[0]+0, ${words}) == -1 ? 1 : 0)' $n && echo "${got} ${name}"
elif command -v python3 >/dev/null; then python3 -c 'import ctypes,sys; sys.exit(1 if ctypes.CDLL(None).syscall(int(sys.argv[1]), ${words}) == -1 else 0)' $n && echo "${got} ${name}"
else echo "${lacks} perl or python3"; fi`;
}

/** Sends a line and prints what comes back, within three seconds. */
function visit(host: string, port: number): string {
  return `if command -v nc >/dev/null; then echo "GET / HTTP/1.0\n" | nc -w 3 ${host} ${port} | head -c 200
elif command -v bash >/dev/null; then timeout 3 bash -c 'exec 3<>/dev/tcp/${host}/${port} && printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3 && head -c 200 <&3'
else echo "${lacks} nc or bash"; fi; echo`;
}

/** By what the egress process decided; it is the only way out. */
const refusedBy =
  (isMeant: (decision: EgressDecisionInfo) => boolean) =>
  ({ decisions, result, weaker }: Facts): Verdict => {
    if (result.stdout.includes(lacks)) return gets('')({ result } as Facts);
    const meant = decisions.filter(isMeant);
    const through = meant.find(({ verdict, kind }) => verdict === 'allowed' && kind !== 'dns');
    if (through !== undefined) return succeeded(`the policy let it through: ${through.rule}`);
    const refused = meant.find(({ verdict }) => verdict !== 'allowed');
    if (refused !== undefined)
      return stopped(
        `the policy, and it is in the log: ${refused.kind} ${refused.verdict} (${refused.rule})`,
      );
    if (result.stdout.trim() !== '') return succeeded('something answered');
    return stopped(weaker.has('network') ? 'the sandbox has no network on this host' : 'nothing answered');
  };

export const attempts: readonly Attempt[] = [
  {
    id: 'home',
    tried: 'read a file in your home, by its name and through /proc',
    script: ({ file }) =>
      `for top in '' /proc/1/root /proc/self/root/../../.. /proc/self/cwd/../../../..; do cat "$top${file}"; done; cat /proc/[0-9]*/root${file}; ls -a "$(dirname ${file})"`,
    judge: finds(
      ({ content }) => content,
      'the sandbox has a root of its own; yours was let go of before anything ran',
    ),
  },
  {
    id: 'shadow',
    tried: 'read the host’s /etc/shadow',
    script: () => 'for file in /etc/shadow /proc/1/root/etc/shadow; do stat -c "%i %s %Y" "$file"; done',
    judge: async ({ result }) => {
      const { statSync } = await import('node:fs');
      const facts = statSync('/etc/shadow', { throwIfNoEntry: false });
      const host =
        facts === undefined ? 'none' : `${facts.ino} ${facts.size} ${Math.floor(facts.mtimeMs / 1_000)}`;
      const isHosts = result.stdout.split('\n').includes(host);
      return isHosts
        ? succeeded('it is the host’s file')
        : stopped('what is called so there is the layer’s, or not there');
    },
  },
  {
    id: 'processes',
    tried: 'see the host’s processes',
    script: () => 'cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | tr "\\0" "\\n"; ps ax -o args || ps',
    judge: finds(({ word }) => word, 'a pid namespace: there are none in its /proc'),
  },
  {
    id: 'kill',
    tried: 'kill a process of the host by its number, as root',
    script: ({ pid }) => `[ ${pid} -gt ${smallPids} ] && kill -9 ${pid}; sleep 0.1`,
    judge: ({ bait: { pid, isProcessAlive } }) => {
      if (!isProcessAlive) return succeeded('it is dead');
      return pid > smallPids
        ? stopped('the number means nothing there')
        : { outcome: 'not_tried', by: 'its number may be one of the sandbox’s own' };
    },
  },
  {
    id: 'ptrace',
    tried: 'trace a process of the host, and read the kernel’s memory',
    script: ({ pid }) =>
      `( : < /dev/mem ) && echo "${got} /dev/mem"; head -c 1 /proc/kcore | grep -q . && echo "${got} /proc/kcore"
[ -d /proc/${pid} ] || { ${systemCall('ptrace', [101, 117], `16, ${pid}, 0, 0`)}; }`,
    judge: gets('there is no such process, no such device, and /proc/kcore is covered'),
  },
  {
    id: 'layers',
    tried: 'change a program of a layer that other sandboxes share',
    script: () => `echo ${got} > /etc/os-release; rm -f /bin/cp; cat /etc/os-release`,
    judge: async ({ neighbour, result }) => {
      if (!result.stdout.includes(got)) return stopped('the layer is read-only');
      const seen = await neighbour();
      return seen.includes(got)
        ? succeeded('a second sandbox sees it')
        : stopped('it wrote to its own copy: a second sandbox has the layer as it was');
    },
  },
  {
    id: 'mount',
    tried: 'mount a file system, and make namespaces to be allowed to',
    script: () =>
      `mkdir -p /tmp/m; for try in 'mount -t tmpfs none /tmp/m' 'mount -t proc proc /tmp/m' 'mount -o remount,rw /proc/sys' 'unshare -U true' 'unshare -m true'; do $try && echo "${got} $try"; done; command -v mount >/dev/null || echo "${lacks} mount"`,
    judge: gets('seccomp: no new mounts, no namespaces'),
  },
  {
    id: 'modules',
    tried: 'load a module and a program into the kernel',
    script: () =>
      `${systemCall('init_module', [175, 105], '0, 0, 0')}\n${systemCall('bpf', [321, 280], '0, 0, 0')}\n${systemCall('kexec_load', [246, 104], '0, 0, 0, 0')}`,
    judge: gets('seccomp: not among the calls that it may make'),
  },
  {
    id: 'settings',
    tried: 'open the kernel’s switches for writing: core_pattern, sysrq, release_agent',
    script: () =>
      `for file in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/vm/drop_caches /sys/fs/cgroup/release_agent /sys/fs/cgroup/*/release_agent /proc/self/oom_score_adj/../../sys/kernel/modprobe; do [ -e "$file" ] && ( : >> "$file" ) && echo "${got} $file"; done`,
    judge: gets('root there is no root of the host'),
  },
  {
    id: 'secret',
    tried: 'read the value of a secret that it may use',
    script: () =>
      'env; cat /proc/[0-9]*/environ | tr "\\0" "\\n"; grep -rs sk-demo /etc /root /run /tmp | head -c 100000',
    judge: ({ bait, result }) => {
      if (`${result.stdout}${result.stderr}`.includes(bait.secret)) return succeeded('it was read');
      const [, placeholder] = /^DEMO_TOKEN=(\S+)$/m.exec(result.stdout) ?? [];
      return stopped(
        placeholder === undefined
          ? 'it is not in there'
          : `it has a placeholder only: ${placeholder.slice(0, 40)}`,
      );
    },
  },
  {
    id: 'metadata',
    tried: 'reach the cloud’s metadata at 169.254.169.254',
    script: () => visit('169.254.169.254', 80),
    judge: refusedBy(({ address }) => address === '169.254.169.254'),
  },
  {
    id: 'loopback',
    tried: 'reach a port on the host’s loopback, by every name it has',
    script: ({ port }) =>
      ['127.0.0.1', 'localhost', 'host.docker.internal', '::ffff:127.0.0.1', '0.0.0.0']
        .map((host) => visit(host, port))
        .join('\n'),
    judge: ({ bait }) =>
      bait.visits > 0
        ? succeeded('something listened and was visited')
        : stopped('127.0.0.1 there is its own, and nothing leads to the host’s'),
  },
  {
    id: 'name',
    tried: 'reach a name that its policy does not have: example.com',
    script: () => visit('example.com', 80),
    judge: refusedBy(({ host }) => host === 'example.com'),
  },
  {
    id: 'disk',
    tried: 'write more than it may',
    limit: 'upper_limit',
    script: () =>
      'fallocate -l 4G /root/big 2>&1 | tee /tmp/said; grep -q "No space" /tmp/said || dd if=/dev/zero of=/root/big bs=1M count=4096 2>&1; stat -c "%s bytes" /root/big; rm -f /root/big',
    judge: ({ result: { stdout } }) => {
      const bytes = Number(/^(\d+) bytes$/m.exec(stdout)?.[1] ?? 0);
      if (bytes >= 4_096 * mib) return succeeded('4 GiB were written');
      if (/no space|quota/i.test(stdout)) return stopped('what it writes to has a size: no space is left');
      return { outcome: 'not_tried', by: 'neither fallocate nor dd came to an end' };
    },
  },
  {
    id: 'memory',
    tried: `take four times the memory of its ${memoryMb} MB`,
    limit: 'memory_limit',
    memoryMb,
    script: () => {
      const bytes = 4 * memoryMb * mib;
      return `head -c ${bytes} /dev/zero | tail -c ${bytes} > /dev/null; echo "end $?"`;
    },
    judge: ({ result: { stdout, exit_code: code } }) => {
      if (stdout.includes('end 0')) return succeeded('it was had');
      const isKilled = stdout.includes('end 137') || code === 137;
      if (isKilled) return stopped('its control group: the kernel ended the program');
      return { outcome: 'not_tried', by: `the program ended by itself: ${stdout.trim() || code}` };
    },
  },
  {
    id: 'fork',
    tried: `start ${processesMax} processes`,
    limit: 'pids_limit',
    script: () => `i=0; while [ $i -lt ${processesMax} ]; do sleep 60 & i=$((i+1)); echo $i; done`,
    judge: ({ result: { stdout, stderr, exit_code: code } }) => {
      const count = Number(stdout.trim().split('\n').at(-1) ?? 0);
      if (count >= processesMax) return succeeded(`${count} run`);
      if (/fork/i.test(stderr)) return stopped(`its control group: no process after ${count} of them`);
      return { outcome: 'not_tried', by: `it ended after ${count} with code ${code}: too slow here to say` };
    },
  },
];

export function notEnforced(by: string): Verdict {
  return { outcome: 'not_enforced', by };
}
