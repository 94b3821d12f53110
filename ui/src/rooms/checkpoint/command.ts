// The command that proves the checkpoints.

import { fileWord } from "../../shell.ts";

/** The command that reads every page of the checkpoints in these directories. */
export function verifyCommand(directories: readonly string[]): string {
  return ["surefoot checkpoint verify", ...directories.map(fileWord)].join(" ");
}
