/**
 * Names of branches that a box may have chosen. Git takes more; what is taken here can be written on a line, given to a program as a word
 * and be the name of a file.
 */
const nameCharactersMax = 200;
const part = /^[A-Za-z0-9_+@#=,-][A-Za-z0-9._+@#=,-]*$/;

export function isBranchName(name: string): boolean {
  if (name.length > nameCharactersMax || name.startsWith('-')) return false;
  return name.split('/').every(isPart);
}

function isPart(text: string): boolean {
  if (!part.test(text) || text.includes('..') || text.endsWith('.')) return false;
  return text !== '@' && text !== 'HEAD' && !text.toLowerCase().endsWith('.lock');
}
