/**
 * The system calls that an engine's process has no use for, as a filter of the kernel (seccomp, classic BPF). Everything Node needs stays; what is
 * refused is what a program that has left its engine would begin with: sockets of any family (vsock knows no network namespace), processes,
 * namespaces, mounts, other processes' memory, and the parts of the kernel that most of its holes were in.
 *
 * A list of what is refused, not of what is allowed: another version of Node, V8 or the C library must not end runs of other people's programs.
 * What it forgets still meets the namespaces.
 */
type Arch = 'x64' | 'arm64';

/** Number on x64, then on arm64; undefined where the architecture has no such call. */
const refused: Readonly<Record<string, readonly [number | undefined, number | undefined]>> = {
  socket: [41, 198],
  connect: [42, 203],
  bind: [49, 200],
  listen: [50, 201],
  accept: [43, 202],
  accept4: [288, 242],
  fork: [57, undefined],
  vfork: [58, undefined],
  execveat: [322, 281],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  process_madvise: [440, 440],
  kcmp: [312, 272],
  pidfd_open: [434, 434],
  pidfd_getfd: [438, 438],
  unshare: [272, 97],
  setns: [308, 268],
  chroot: [161, 51],
  pivot_root: [155, 41],
  mount: [165, 40],
  umount2: [166, 39],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  mknod: [133, undefined],
  mknodat: [259, 33],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  personality: [135, 92],
  syslog: [103, 116],
  acct: [163, 89],
  swapon: [167, 224],
  swapoff: [168, 225],
  reboot: [169, 142],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  clock_adjtime: [305, 266],
  adjtimex: [159, 171],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  iopl: [172, undefined],
  ioperm: [173, undefined],
  modify_ldt: [154, undefined],
  lookup_dcookie: [212, 18],
};

const machines: Readonly<
  Record<Arch, { readonly audit: number; readonly clone: number; readonly clone3: number }>
> = {
  x64: { audit: 0xc000003e, clone: 56, clone3: 435 },
  arm64: { audit: 0xc00000b7, clone: 220, clone3: 435 },
};

/** Where `struct seccomp_data` has them; a call's arguments are 64 bits wide, of which the low ones come first. */
const offsets = { number: 0, arch: 4, firstArgument: 16 } as const;
/** BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_JMP|BPF_JGE|BPF_K, BPF_JMP|BPF_JSET|BPF_K, BPF_RET|BPF_K */
const codes = { load: 0x20, jumpEqual: 0x15, jumpAtLeast: 0x35, jumpAnyBit: 0x45, answer: 0x06 } as const;
const answers = {
  allow: 0x7fff0000,
  kill: 0x80000000,
  notPermitted: 0x00050001,
  noSuchCall: 0x00050026,
} as const;
/** x64 takes calls of its 32-bit variant by this bit: another set of numbers that no list here names. */
const x32Bit = 0x40000000;
const cloneThread = 0x00010000;

type Step = readonly [code: number, whenTrue: number, whenFalse: number, value: number];

/** For `bwrap --seccomp`; undefined on machines this file has no numbers of. */
export function seccompFilter(arch: string = process.arch): Buffer | undefined {
  if (arch !== 'x64' && arch !== 'arm64') return undefined;
  const { audit, clone, clone3 } = machines[arch];
  const numbers = Object.values(refused).flatMap(([x64, arm64]) => (arch === 'x64' ? x64 : arm64) ?? []);
  const answer = (value: number): Step => [codes.answer, 0, 0, value];
  // Each question that hits runs the step behind it, each that does not skips it.
  const when = (number: number, value: number): readonly Step[] => [
    [codes.jumpEqual, 0, 1, number],
    answer(value),
  ];
  return encode([
    [codes.load, 0, 0, offsets.arch],
    [codes.jumpEqual, 1, 0, audit],
    answer(answers.kill),
    [codes.load, 0, 0, offsets.number],
    ...(arch === 'x64' ? ([[codes.jumpAtLeast, 0, 1, x32Bit], answer(answers.notPermitted)] as const) : []),
    ...numbers.flatMap((number) => when(number, answers.notPermitted)),
    // Its flags are in memory, which no filter can read; the C library falls back to clone where it is missing.
    ...when(clone3, answers.noSuchCall),
    // Threads, but no processes.
    [codes.jumpEqual, 0, 3, clone],
    [codes.load, 0, 0, offsets.firstArgument],
    [codes.jumpAnyBit, 1, 0, cloneThread],
    answer(answers.notPermitted),
    answer(answers.allow),
  ]);
}

/** `struct sock_filter`, little endian as both architectures are. */
function encode(steps: readonly Step[]): Buffer {
  const bytes = Buffer.alloc(steps.length * 8);
  for (const [at, [code, whenTrue, whenFalse, value]] of steps.entries()) {
    bytes.writeUInt16LE(code, at * 8);
    bytes.writeUInt8(whenTrue, at * 8 + 2);
    bytes.writeUInt8(whenFalse, at * 8 + 3);
    bytes.writeUInt32LE(value, at * 8 + 4);
  }
  return bytes;
}
