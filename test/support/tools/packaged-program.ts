import { readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf } from '../../../shared/errors/index.ts';
import { runCommand } from './tool.ts';

const DOWNLOAD_MS_MAX = 2 * 60_000;

/** Place of a program in a package of the distribution. */
interface PackagedProgram {
  readonly package: string;
  /** Path of the program below the root. */
  readonly path: string;
}

/** Takes a program out of a package of the distribution, without root. Works in `cwd`; the program goes to `to`. */
export async function unpackProgram(program: PackagedProgram, cwd: string, to: string): Promise<void> {
  await runCommand('apt-get', ['download', program.package], { timeoutMs: DOWNLOAD_MS_MAX, cwd });
  const archive = (await readdir(cwd)).find((name) => name.endsWith('.deb'));
  if (archive === undefined) throw new Error(`apt-get download ${program.package} left no package`);
  await runCommand('dpkg', ['-x', archive, 'root'], { timeoutMs: DOWNLOAD_MS_MAX, cwd });
  await rename(join(cwd, 'root', program.path), to);
}

/** Makes something in the first way, or in the second one if that fails. Throws one line with both reasons. */
export async function inEitherWay(first: () => Promise<void>, second: () => Promise<void>): Promise<void> {
  try {
    await first();
  } catch (firstFailure) {
    try {
      await second();
    } catch (secondFailure) {
      throw new Error(`${reasonOf(firstFailure)}; ${reasonOf(secondFailure)}`);
    }
  }
}
