/**
 * Why a user can make no user namespace here, by what the kernel tells of it, and what root does about it. For who has tried it in vain:
 * AppArmor's restriction is in force where a profile has lifted it, too.
 */

export interface NamespaceProblem {
  readonly found: string;
  /** As root types them, one after the other; a sentence where no command mends it. */
  readonly remedy: readonly string[];
}

export interface NamespaceFacts {
  /** A file's text without the line's end; undefined where there is none. */
  readonly read: (path: string) => string | undefined;
  /** The program that makes them. */
  readonly launcher: string;
  /** What it said when it tried. */
  readonly said: string;
}

export function namespaceProblem({ read, launcher, said }: NamespaceFacts): NamespaceProblem {
  const most = read('/proc/sys/user/max_user_namespaces');
  if (most === undefined)
    return {
      found: 'this kernel has no user namespaces',
      remedy: ['boot a kernel with CONFIG_USER_NS=y, as distributions have it'],
    };
  if (most === '0') return ofSetting('user.max_user_namespaces', most, '10000');
  const clone = read('/proc/sys/kernel/unprivileged_userns_clone');
  if (clone === '0') return ofSetting('kernel.unprivileged_userns_clone', clone, '1');
  const isRestricted = read('/proc/sys/kernel/apparmor_restrict_unprivileged_userns') === '1';
  // A profile that some file for other programs gives it does the same.
  if (isRestricted || said.includes('AppArmor')) return ofAppArmor(launcher, isRestricted);
  return {
    found:
      'something around this process refuses user namespaces: a container’s rules, or a limit that is used up',
    remedy: [
      'in a container: start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined',
    ],
  };
}

const settingsFile = '/etc/sysctl.d/60-squash.conf';

function ofSetting(name: string, value: string, wanted: string): NamespaceProblem {
  return {
    found: `${name} is ${value}`,
    remedy: [`echo '${name} = ${wanted}' | sudo tee ${settingsFile}`, `sudo sysctl --load ${settingsFile}`],
  };
}

const profileFile = '/etc/apparmor.d/squash';

function ofAppArmor(launcher: string, isRestricted: boolean): NamespaceProblem {
  const setting = isRestricted ? 'kernel.apparmor_restrict_unprivileged_userns is 1, and ' : '';
  return {
    found: `${setting}AppArmor has no profile for Squash that lets it use them`,
    remedy: [
      `sudo tee ${profileFile} <<'END'\n${appArmorProfile(launcher)}END`,
      `sudo apparmor_parser -r ${profileFile}`,
    ],
  };
}

/** It confines nothing: it gives back what is taken from programs without a profile. */
export function appArmorProfile(launcher: string): string {
  // What is a pattern in a profile is a letter in a path.
  const path = launcher.replaceAll(/[\\"{}[\]*?^]/g, '\\$&');
  return `abi <abi/4.0>,
include <tunables/global>

profile squash "${path}" flags=(unconfined) {
  userns,

  include if exists <local/squash>
}
`;
}
