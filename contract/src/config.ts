/**
 * Every variable that configures the daemon, as data: the loader, `squash doctor --config` and `docs/configuration.md` are made
 * from this table, so none of them can know a variable the others don't. An empty value is the same as none (the original's
 * defaults are empty strings). A row with `part` belongs to a part that does not exist yet: asking for it refuses the start,
 * because a security setting that is silently ignored is worse than a daemon that does not run.
 */
import { limits } from './limits.ts';
import type { Setting } from './setting.ts';

export type { Setting, SettingKind } from './setting.ts';

export const settings = [
  {
    name: 'SQUASH_DATA',
    kind: { type: 'path' },
    default: '',
    defaultIs:
      '`/data` where it exists and is writable, else `/var/lib/squash` for root, else `~/.local/share/squash`',
    meaning: 'Directory for all state. A relative path is relative to the working directory.',
    origin: 'original',
  },
  {
    name: 'SQUASH_DATA_DIR',
    kind: { type: 'path' },
    default: '',
    meaning:
      'Other name of `SQUASH_DATA`, as in later versions of the original. Setting both to different paths is an error.',
    origin: 'original',
  },
  {
    name: 'SQUASH_RUN',
    kind: { type: 'path' },
    default: '',
    defaultIs: '`run` in the data directory',
    meaning:
      'Directory for sockets. On a local file system that has Unix sockets. One of its own for each data directory; it can be changed when nothing runs any more (`squash stop --all`).',
    origin: 'squash',
  },
  {
    name: 'SQUASH_BACKEND',
    kind: { type: 'choice', choices: ['chroot', 'vm', 'firecracker'] },
    default: 'chroot',
    meaning:
      'What isolates a sandbox that asks for none. `chroot` is the name of the namespace backend; `vm` is the microVM backend (docs/backends.md); `firecracker` is the same with Firecracker as its VMM, which `SQUASH_FIRECRACKER` names.',
    origin: 'original',
  },
  {
    name: 'SQUASH_FIRECRACKER',
    kind: { type: 'path' },
    default: '',
    meaning:
      'The program of Firecracker, 1.16.1 or newer, that the daemon’s user can read. Where it is set all microVMs of this daemon run in it, else in QEMU ([backends.md](backends.md#firecracker)).',
    origin: 'squash',
  },
  {
    name: 'SQUASH_VM_ACCEL',
    kind: { type: 'choice', choices: ['auto', 'kvm', 'tcg'] },
    default: 'auto',
    meaning:
      'What carries out the code of microVMs in QEMU. `auto` is KVM where a guest has answered on it, else emulation; with `kvm` there are none without it, with `tcg` all are emulated ([backends.md](backends.md#kvm)).',
    origin: 'squash',
  },
  {
    name: 'SQUASH_HOST',
    kind: { type: 'host' },
    default: '127.0.0.1',
    meaning: 'Address the HTTP API listens on. Anything but loopback needs `SQUASH_AUTH_TOKEN`.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_PORT',
    kind: { type: 'port' },
    default: '8080',
    meaning: 'TCP port of the HTTP API. `0` takes a free one, `off` serves the Unix socket only.',
    origin: 'original',
  },
  {
    name: 'SQUASH_AUTH_TOKEN',
    kind: { type: 'secret' },
    default: '',
    meaning:
      'The operator’s bearer token. Every request over TCP must carry it or a key (docs/keys.md); only health is exempt. Empty: over loopback only the user who started the daemon, root and keys are served. To the command line: the token or key that it sends.',
    origin: 'original',
  },
  {
    name: 'SQUASH_ALLOWED_HOSTS',
    kind: { type: 'hosts' },
    default: '',
    meaning:
      'Names, separated by commas, that a request may carry in `Host` beside IP addresses and `localhost`; `*.example.com` stands for all subdomains. Needed behind a reverse proxy.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_PREVIEW_DOMAIN',
    kind: { type: 'domain' },
    default: '',
    meaning:
      'Domain under which ports of sandboxes are served too, as `<port>-<label>.<domain>`; all names below it must lead to the daemon. Take one that is used for nothing else ([ports.md](ports.md)).',
    origin: 'squash',
  },
  {
    name: 'SQUASH_PREVIEW_TLS_PORT',
    kind: { type: 'port' },
    default: 'off',
    meaning:
      'TCP port on which ports of sandboxes are served over TLS, and nothing else; needs `SQUASH_PREVIEW_DOMAIN` and a certificate ([ports.md](ports.md#tls)).',
    origin: 'squash',
  },
  {
    name: 'SQUASH_SSH_PORT',
    kind: { type: 'port' },
    default: 'off',
    meaning:
      'TCP port of the SSH gateway: a process of its own that lets registered public keys in ([ssh.md](ssh.md#the-gateway)). `squash ssh` needs none.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_SSH_HOST',
    kind: { type: 'host' },
    default: '127.0.0.1',
    meaning: 'Address that the SSH gateway listens on.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_STRICT_CONTENT_TYPE',
    kind: { type: 'flag' },
    default: '',
    meaning:
      '`1`: a POST that does not say `Content-Type: application/json` is answered 415, as the original did.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_MAX_SANDBOXES',
    kind: { type: 'integer', min: 1, max: limits.sandboxesMax },
    default: String(limits.sandboxesMaxDefault),
    meaning: 'Most sandboxes at once.',
    origin: 'original',
  },
  {
    name: 'SQUASH_UPPER_LIMIT_MB',
    kind: { type: 'integer', min: 16, max: 1_048_576 },
    default: '512',
    meaning: 'Most MiB that one sandbox can write.',
    origin: 'original',
  },
  {
    name: 'SQUASH_MAX_CPU',
    kind: { type: 'integer', min: 1, max: limits.cpuMax },
    default: String(limits.cpuMax),
    meaning: 'Most processors (`cpu`) that one sandbox may ask for. One that asks for none gets no more.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_MAX_MEMORY_MB',
    kind: { type: 'integer', min: limits.memoryMbMin, max: limits.memoryMbMax },
    default: String(limits.memoryMbMax),
    meaning: 'Most memory (`memory_mb`) that one sandbox may ask for. One that asks for none gets no more.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_MAX_LIFETIME_S',
    kind: { type: 'integer', min: 0, max: limits.lifetimeSMax },
    default: '0',
    meaning:
      'Longest lifetime (`max_lifetime_s`) that one sandbox may ask for; one that asks for none gets this. `0`: sandboxes may live for ever.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_MEMORY_RESERVE_MB',
    kind: { type: 'integer', min: 0, max: limits.memoryMbMax },
    default: '256',
    meaning: 'MiB of the host’s memory that stay available: a create that would go below is refused.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_MEMORY_OVERCOMMIT',
    kind: { type: 'integer', min: 0, max: limits.overcommitPercentMax },
    default: '0',
    meaning:
      'How much memory all sandboxes together may be promised, in percent of what the host has. `0`: only what they use counts.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_CPU_OVERCOMMIT',
    kind: { type: 'integer', min: 0, max: limits.overcommitPercentMax },
    default: '0',
    meaning:
      'How many processors all sandboxes together may be promised, in percent of what the host has. `0`: they are not counted, and shared when they are busy.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_DISK_OVERCOMMIT',
    kind: { type: 'integer', min: 0, max: limits.overcommitPercentMax },
    default: '0',
    meaning:
      'How much all sandboxes together may be promised to write, in percent of the data directory’s file system. `0`: only what is free counts.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_REQUIRE_LIMITS',
    kind: { type: 'flag' },
    default: '',
    meaning:
      '`1`: a create whose limits this host can not enforce is refused instead of answered with `warnings`.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_UPPER',
    kind: { type: 'choice', choices: ['auto', 'directory', 'project', 'image', 'tmpfs'] },
    default: 'auto',
    meaning:
      'How the writable layer is kept and its size held. `auto` takes the strongest that the host offers.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_OVERLAY',
    kind: { type: 'choice', choices: ['auto', 'kernel', 'fuse'] },
    default: 'auto',
    meaning: 'What merges the layers. `auto` takes the kernel’s overlayfs and falls back to fuse-overlayfs.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_IDS',
    kind: { type: 'choice', choices: ['auto', 'range', 'shared', 'single', 'own'] },
    default: 'auto',
    meaning:
      'User ids inside a sandbox: 65,536 (`range`) or one (`single`). `auto` takes the range where the host has one. Where root started Squash each sandbox has a range of its own as far as the kernel allows it, with `shared` all have the same; with `own` the daemon has root’s id and none of root’s rights, as boxes of root need it.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_HOST_ROOT',
    kind: { type: 'flag' },
    default: '',
    meaning:
      '`1`: who may do everything here may make sandboxes whose root is the host’s file system, seen through rules. Not where root started Squash.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_HOST_PORTS',
    kind: { type: 'choice', choices: ['off', 'boxes'] },
    default: 'off',
    meaning:
      '`boxes`: sandboxes with the host’s file system (`SQUASH_HOST_ROOT`) reach what their policies name of the host’s loopback, as `host.squash.internal:PORT`, and nothing else of it. The daemon that `squash box` starts has it, unless `off` stands in its environment.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_IDLE_EXIT_S',
    kind: { type: 'integer', min: 0, max: limits.lifetimeSMax },
    default: '0',
    meaning:
      'The daemon ends, with all that it started, when for so many seconds no sandbox has run and no client was connected; files of sandboxes stay. `0`: never.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_LOG_LEVEL',
    kind: { type: 'choice', choices: ['debug', 'info', 'warn', 'error'] },
    default: 'info',
    meaning: 'Least severity that is logged.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_LOG_FORMAT',
    kind: { type: 'choice', choices: ['auto', 'json', 'pretty'] },
    default: 'auto',
    meaning: 'Form of log lines. `auto`: `pretty` at a terminal, else `json`.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_S3_BUCKET',
    kind: { type: 'bucket' },
    default: '',
    meaning:
      'Bucket that modules and snapshots are kept in beside this machine ([s3.md](s3.md)). Needs a key, in the variables below or in those of AWS.',
    origin: 'original',
  },
  {
    name: 'SQUASH_S3_ENDPOINT',
    kind: { type: 'url' },
    default: '',
    meaning:
      'Address of an S3 service that is not Amazon’s, such as `https://minio.example:9000`; the bucket’s name goes into the path.',
    origin: 'original',
  },
  {
    name: 'SQUASH_S3_REGION',
    kind: { type: 'text' },
    default: 'us-east-1',
    meaning: 'Region of the bucket.',
    origin: 'original',
  },
  {
    name: 'SQUASH_S3_PREFIX',
    kind: { type: 'text' },
    default: '',
    meaning: 'Beginning of every key in the bucket; a `/` is put behind it.',
    origin: 'original',
  },
  {
    name: 'SQUASH_S3_ACCESS_KEY_ID',
    kind: { type: 'secret' },
    default: '',
    meaning: 'Key id for the bucket, where it differs from `AWS_ACCESS_KEY_ID`.',
    origin: 'original',
  },
  {
    name: 'SQUASH_S3_SECRET_ACCESS_KEY',
    kind: { type: 'secret' },
    default: '',
    meaning: 'Key for the bucket, where it differs from `AWS_SECRET_ACCESS_KEY`.',
    origin: 'original',
  },
  {
    name: 'AWS_ACCESS_KEY_ID',
    kind: { type: 'secret' },
    default: '',
    meaning: 'Key id for S3. Never reaches a sandbox.',
    origin: 'original',
    completes: 'SQUASH_S3_BUCKET',
  },
  {
    name: 'AWS_SECRET_ACCESS_KEY',
    kind: { type: 'secret' },
    default: '',
    meaning: 'Key for S3. Never reaches a sandbox.',
    origin: 'original',
    completes: 'SQUASH_S3_BUCKET',
  },
  {
    name: 'SQUASH_REGISTRY_AUTH_FILE',
    kind: { type: 'path' },
    default: '',
    meaning:
      'File with logins to image registries, in the form of docker’s `config.json` and podman’s `auth.json` ([images.md](images.md)). The daemon reads it at each pull and push; where root starts Squash it belongs to the data directory’s user.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_INSECURE_REGISTRIES',
    kind: { type: 'registries' },
    default: '',
    meaning:
      'Registries, separated by commas, that are spoken to over plain HTTP, such as `localhost:5000`. Whoever is on the way can read logins, and exchange images that are not named by digest.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_EPHEMERAL',
    kind: { type: 'flag' },
    default: '',
    meaning:
      '`1`: the bucket is the only durable storage ([s3.md](s3.md)). A sandbox’s files are saved there before it ends and when the daemon stops, and a create with its id has them again.',
    origin: 'original',
  },
  {
    name: 'SQUASH_EPHEMERAL_INTERVAL',
    kind: { type: 'integer', min: 1, max: 86_400 },
    default: '300',
    meaning:
      'Seconds between two saves of a sandbox in ephemeral mode, where something has run in it: what the loss of the machine can take.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_PROXY_HTTPS',
    kind: { type: 'flag' },
    default: '1',
    meaning:
      'TLS to hosts that have a secret, or a rule with methods or paths, is read. `0`: secrets are put into plain HTTP only, and TLS that would have to be read is refused.',
    origin: 'original',
  },
  {
    name: 'SQUASH_EGRESS_ALLOW_CIDRS',
    kind: { type: 'ranges' },
    default: '',
    meaning:
      'Ranges such as `10.0.0.0/8`, separated by commas, that count as public: every sandbox whose policy allows all public addresses reaches them. A range counts for what it lies inside of: `0.0.0.0/0` adds nothing. Without it private, link-local and other reserved ranges are reached only where a policy names them, the host’s loopback nowhere.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_WEBHOOK_RANGES',
    kind: { type: 'ranges' },
    default: '',
    meaning:
      'Ranges such as `10.0.0.0/8`, separated by commas, that webhooks may be sent to although they are not public. A range counts for what it lies inside of: `0.0.0.0/0` adds nothing.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_EGRESS_RESOLVERS',
    kind: { type: 'servers' },
    default: '',
    defaultIs: 'those of `/etc/resolv.conf`',
    meaning:
      'DNS servers that names of sandboxes are looked up with, such as `192.0.2.53,[2001:db8::53]:5353`.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_EGRESS_HOSTS',
    kind: { type: 'path' },
    default: '',
    defaultIs: '`/etc/hosts`',
    meaning: 'File of names and addresses that is asked before DNS, in the form of `/etc/hosts`.',
    origin: 'squash',
  },
  {
    name: 'SQUASH_DEFAULT_FEATURES',
    kind: { type: 'text' },
    default: '',
    meaning: 'Features that every sandbox gets.',
    origin: 'original',
    part: 'the desktop',
  },
  {
    name: 'TAILSCALE_AUTHKEY',
    kind: { type: 'secret' },
    default: '',
    meaning: 'Joins the daemon to a Tailscale network.',
    origin: 'original',
    part: 'Tailscale',
  },
  {
    name: 'TAILSCALE_HOSTNAME',
    kind: { type: 'text' },
    default: 'squash',
    meaning: 'The daemon’s name in the Tailscale network.',
    origin: 'original',
    completes: 'TAILSCALE_AUTHKEY',
  },
  {
    name: 'SQUASH_API',
    kind: { type: 'text' },
    default: '',
    meaning: 'Address of the daemon: `http://host:port` or `unix:/path`.',
    origin: 'client',
  },
  {
    name: 'SQUASH_SOCKET',
    kind: { type: 'path' },
    default: '',
    meaning: 'The daemon’s Unix socket.',
    origin: 'client',
  },
  {
    name: 'SQUASH_BOX_DATA',
    kind: { type: 'path' },
    default: '~/.local/state/squash/box',
    meaning: 'The data directory of the daemon that `squash box` starts.',
    origin: 'client',
  },
  {
    name: 'SQUASH_STANDBY',
    kind: { type: 'choice', choices: ['on', 'off'] },
    default: 'on',
    meaning: 'Whether a command line stands by for the next `squash box run`.',
    origin: 'client',
  },
  {
    name: 'SQUASH_PRESETS',
    kind: { type: 'path' },
    default: '',
    meaning: 'Directory with presets of one’s own, for `squash module build`.',
    origin: 'client',
  },
  {
    name: 'SQUASH_FAULT_POINT',
    kind: { type: 'text' },
    default: '',
    meaning: 'Named point at which the crash suite kills the daemon.',
    origin: 'test',
  },
  {
    name: 'SQUASH_READY_MS',
    kind: { type: 'integer', min: 1, max: 60_000 },
    default: '60000',
    meaning: 'How long `squash serve --detach` waits for its daemon before it ends it.',
    origin: 'test',
  },
  {
    name: 'SQUASH_HUNG_MS',
    kind: { type: 'integer', min: 1_000, max: 600_000 },
    default: String(limits.launcherHungMs),
    meaning: 'How long a launcher or a privileged helper may answer nothing before it is ended.',
    origin: 'test',
  },
] as const satisfies readonly Setting[];

export type SettingName = (typeof settings)[number]['name'];

/** Variables with these beginnings are Squash's own: an unknown one is a mistake in spelling. */
export const ownPrefixes = ['SQUASH_'] as const;
