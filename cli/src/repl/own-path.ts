/** A file of this machine as it is named where no shell reads the name. */
import { homedir } from 'node:os';
import { resolve } from 'node:path';

export const ownPath = (name: string): string => resolve(name.replace(/^~(?=\/)/, homedir()));
