/** Paths of SFTP, which are bytes, and relative to the user's home where they do not begin with a slash. */

const slash = 0x2f;

export function absolute(path: Buffer, home: Buffer): Buffer {
  return path[0] === slash ? path : Buffer.concat([home, Buffer.from('/'), path]);
}

/** Without `.` and `..`, by the path's words alone: a link in it is not looked at. */
export function normal(path: Buffer): Buffer {
  const parts: string[] = [];
  for (const part of path.toString('latin1').split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return Buffer.from(`/${parts.join('/')}`, 'latin1');
}

/** What a user's row in the password file says, or the root directory. */
export function homeOf(passwd: string, user: string): string {
  for (const line of passwd.split('\n')) {
    const [name, , , , , home] = line.split(':');
    if (name === user && home?.startsWith('/') === true) return home.replace(/\/+$/, '');
  }
  return '';
}
