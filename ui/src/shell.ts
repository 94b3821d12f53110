// Words of a command as a POSIX shell needs them; pure.

/** Quotes a word for a POSIX shell; plain words stay plain. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) && !word.startsWith("-") ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A path that cannot be taken for an option. */
export function fileWord(path: string): string {
  return shellWord(path.startsWith("-") ? `./${path}` : path);
}
