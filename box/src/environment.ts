/**
 * Which variables of ours a box gets: those of a list, and what is named. Everything else stays outside, for nobody knows what the
 * variables of a developer's shell hold.
 */

type Variables = Readonly<Record<string, string | undefined>>;

const passedNames = new Set([
  'PATH',
  'LANG',
  'LANGUAGE',
  'TZ',
  'TERM',
  'COLORTERM',
  'TERM_PROGRAM',
  'TERM_PROGRAM_VERSION',
  'NO_COLOR',
  'FORCE_COLOR',
  'CLICOLOR',
  'CLICOLOR_FORCE',
  'EDITOR',
  'VISUAL',
  'PAGER',
  'LESS',
]);
const passedPattern = /^LC_[A-Z]+$/;

const secretName =
  /(?:_|^)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PWD|AUTH|CREDENTIALS?|OAUTH|COOKIE|DSN|CERT)(?:_|$)|CONNECTION_STRING/i;
const secretValue =
  /^(?:sk-|ghp_|gho_|ghs_|ghu_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|ya29\.|npm_|pypi-|hf_|eyJ[\w-]+\.)|-----BEGIN [A-Z ]*PRIVATE KEY|^[a-z][a-z0-9+.-]*:\/\/[^/\s@]*:[^/\s@]+@/i;

export function looksSecret(name: string, value: string): boolean {
  return secretName.test(name) || secretValue.test(value);
}

export function isPassedByDefault(name: string): boolean {
  return passedNames.has(name) || passedPattern.test(name);
}

/** Of the list. What looks like a secret even there is left out: `EDITOR` may be anything. */
export function passedVariables(env: Variables): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || !isPassedByDefault(name)) continue;
    if (looksSecret(name, value)) continue;
    passed[name] = name === 'PATH' ? absoluteOnly(value) : value;
  }
  return passed;
}

/** A relative directory would find programs of the repository. */
function absoluteOnly(path: string): string {
  return path
    .split(':')
    .filter((entry) => entry.startsWith('/'))
    .join(':');
}
