// What a release has (test/fixtures/engines/releases.jsonl), and the command line that a stand-in was started with.
import { readFileSync } from 'node:fs';

const FILE = new URL('../../../../fixtures/engines/releases.jsonl', import.meta.url);

export const releases = readFileSync(FILE, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));

/** The row of `vllm-0.20.2` and the like. */
export function releaseNamed(name) {
  const row = releases.find(({ engine, release }) => `${engine}-${release}` === name);
  if (row === undefined) throw new Error(`no release ${name}`);
  return row;
}

export class CommandLine {
  constructor(args) {
    this.args = args;
  }

  has(flag) {
    return this.args.some((arg) => arg === flag || arg.startsWith(`${flag}=`));
  }

  /** Returns the last value of a flag, as the next argument or after `=`. */
  value(...flags) {
    const at = this.args.findLastIndex((arg) => flags.includes(arg.split('=')[0]));
    if (at < 0) return undefined;
    const arg = this.args[at];
    return arg.includes('=') ? arg.slice(arg.indexOf('=') + 1) : this.args[at + 1];
  }

  count(fallback, ...flags) {
    return Number(this.value(...flags) ?? fallback);
  }
}

/** Ends the process as argparse does where a flag is not known. */
export function refuseUnknown(program, { lacksFlags }, line) {
  const unknown = line.args.filter((arg) => lacksFlags.some((flag) => arg.split('=')[0] === `--${flag}`));
  if (unknown.length === 0) return;
  console.error(`${program}: error: unrecognized arguments: ${unknown.join(' ')}`);
  process.exit(2);
}
