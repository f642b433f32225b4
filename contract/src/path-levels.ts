/**
 * What a sandbox may have of a path of the host, and what is closed whatever anybody asks. Apart from the schemas of `host-root.ts`: the
 * command line starts without the schema library.
 */

/** The strictest first. `cow`: what is written stays in the sandbox; `mask`: a text stands in the file's place. */
export const pathLevels = ['hidden', 'deny', 'mask', 'ro', 'cow', 'rw'] as const;
export type PathLevel = (typeof pathLevels)[number];

const words = (text: string): readonly string[] => text.split(' ');

/** Keys of the machine, and what container engines keep. */
export const closedPaths: readonly string[] = [
  ...words(
    '/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /var/run/docker.sock',
  ),
  ...words('/var/backups/shadow.bak /var/backups/gshadow.bak'),
  // What root alone may read: his box is root's.
  ...words('/etc/ssl/private /etc/pki/tls/private /etc/NetworkManager/system-connections /etc/wireguard'),
  ...words('/etc/krb5.keytab /etc/security/opasswd /etc/credstore /etc/credstore.encrypted'),
  ...words('rsa ecdsa ed25519 dsa').map((name) => `/etc/ssh/ssh_host_${name}_key`),
  ...words('/var/lib/docker /var/lib/containerd /var/lib/containers /var/lib/kubelet'),
];

/** What programs keep keys in, below a home. */
export const closedInHome: readonly string[] = [
  ...words('.ssh .aws .azure .gcloud .config/gcloud .kube .docker .gnupg .password-store'),
  ...words('.local/share/keyrings .local/share/gnome-keyring .local/share/pass'),
  ...words('.local/share/org.keepassxc.KeePassXC .netrc .git-credentials .pypirc .config/gh .config/op'),
  // Beside a configuration that boxes see: git keeps passwords there where the file exists.
  '.config/git/credentials',
  // State of Squash's daemons, this one or another: their sockets and secrets.
  ...words('.local/share/squash .local/state/squash'),
];

/** Directories with homes of services and much else: what lies beside one is no other user's home. */
export const noHomes: readonly string[] = words(
  '/ /bin /etc /mnt /opt /run /sbin /srv /tmp /usr /usr/lib /var /var/lib',
);

/**
 * Sockets behind which somebody runs programs outside for whoever asks, by the end of their path: container engines as root, a session's
 * bus and its service manager as the user.
 */
export const closedSockets: readonly string[] = [
  ...words('docker.sock containerd.sock podman.sock crio.sock buildkitd.sock cri-dockerd.sock'),
  ...words('containerd.sock.ttrpc dockershim.sock libpod.sock lxd/unix.socket incus/unix.socket'),
  ...words('dbus/system_bus_socket systemd/private systemd/io.systemd.Manager'),
];

/** The sandbox has its own. */
export const systemPaths: readonly string[] = words('/proc /sys /dev /run');
