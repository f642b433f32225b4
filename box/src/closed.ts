/**
 * What no rule of the command line opens by itself. The judge is the daemon, which refuses these whatever it is asked; here they are only
 * left out of what is opened without being named, so that a directory of `PATH` below one of them is no reason to refuse a box.
 */
import { dirname } from 'node:path';
import { isWithin } from './levels.ts';

const ofSystem = [
  '/etc/shadow',
  '/etc/shadow-',
  '/etc/gshadow',
  '/etc/gshadow-',
  '/etc/sudoers',
  '/etc/sudoers.d',
  '/etc/ssl/private',
  '/etc/pki/tls/private',
  '/etc/NetworkManager/system-connections',
  '/etc/wireguard',
  '/etc/credstore',
  '/etc/credstore.encrypted',
  '/proc',
  '/sys',
  '/dev',
  '/run',
  '/var/run',
];

const ofHome = [
  '.ssh',
  '.aws',
  '.azure',
  '.gcloud',
  '.config/gcloud',
  '.kube',
  '.docker',
  '.gnupg',
  '.password-store',
  '.local/share/keyrings',
  '.local/share/gnome-keyring',
  '.local/share/pass',
  '.local/share/org.keepassxc.KeePassXC',
  '.netrc',
  '.git-credentials',
  '.pypirc',
  '.config/gh',
  '.config/op',
  '.config/git/credentials',
  '.local/share/squash',
  '.local/state/squash',
];

/** What lies beside a home in one of these is no other user's. */
const noHomes = [
  '/',
  '/bin',
  '/etc',
  '/mnt',
  '/opt',
  '/run',
  '/sbin',
  '/srv',
  '/tmp',
  '/usr',
  '/usr/lib',
  '/var',
  '/var/lib',
];

export function isClosed(path: string, home: string): boolean {
  if (ofSystem.some((place) => isWithin(path, place))) return true;
  if (isWithin(path, home)) return ofHome.some((name) => isWithin(path, `${home}/${name}`));
  // Root's home, and those beside the user's own.
  const homes = dirname(home);
  return isWithin(path, '/root') || (!noHomes.includes(homes) && path !== homes && isWithin(path, homes));
}
