import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

/** Folder of the agent of CloudWatch. */
const LOG_AGENT = 'opt/aws/amazon-cloudwatch-agent/bin';

interface Machine {
  /** Images that Docker has already. */
  readonly images?: readonly string[];
  /** Image that the installed agent was taken from; that of CloudWatch is installed, too. @default neither is */
  readonly agentOf?: string;
  /** Whether pulls fail. */
  readonly isOffline?: boolean;
}

interface Run {
  /** Root of the file system that the program saw. */
  readonly folder: string;
  /** Commands that it called, in order. */
  readonly calls: readonly string[];
  readonly status: number | null;
}

/**
 * Runs a program for machines on this one, with its own `/etc`, `/opt`, `/var` and `/root`, and with stand-ins for the
 * commands that change a machine. They write down how they were called.
 */
export function runOnMachine(text: string, { images = [], agentOf, isOffline = false }: Machine = {}): Run {
  const folder = mkdtempSync(join(tmpdir(), 'stator-machine-'));
  const bin = join(folder, 'bin');
  for (const path of ['bin', 'etc/logrotate.d', 'etc/systemd/system', 'opt/stator', 'root/.docker', 'pulled'])
    mkdirSync(join(folder, path), { recursive: true });
  const nameOf = (image: string) => image.replaceAll('/', '_');
  for (const image of images) writeFileSync(join(folder, 'pulled', nameOf(image)), '');
  const stub = (path: string, body: string) => {
    const name = path.replace(/.*\//, '');
    writeFileSync(join(folder, path), `#!/bin/bash\necho "${name} $*" >>'${folder}/calls'\n${body}\n`);
    chmodSync(join(folder, path), 0o755);
  };
  if (agentOf !== undefined) {
    writeFileSync(join(folder, 'opt/stator/image'), `${agentOf}\n`);
    mkdirSync(join(folder, LOG_AGENT), { recursive: true });
    stub(`${LOG_AGENT}/amazon-cloudwatch-agent-ctl`, 'true');
  }
  stub('bin/curl', 'echo i-0123');
  stub('bin/aws', 'echo password');
  stub('bin/systemctl', 'true');
  stub('bin/dnf', 'true');
  stub('bin/sleep', 'true');
  stub('agent', 'true');
  const pulled = `'${folder}'/pulled`;
  stub(
    'bin/docker',
    `last="\${*: -1}"; last="\${last//\\//_}"
case "$1" in
  image) test -e ${pulled}/"$last";;
  pull) ${isOffline ? 'false' : `touch ${pulled}/"$last"`};;
  login) cat >/dev/null; echo password >'${folder}'/root/.docker/config.json;;
  create) test -e ${pulled}/"$last" && echo c1;;
  cp) case "$2" in *node) cp '${folder}'/agent "$3";; esac;;
esac`,
  );
  const own = text.replaceAll(/(?<=[\s'=>])\/(etc|opt|var|root)\//g, `${folder}/$1/`);
  writeFileSync(join(folder, 'program.sh'), own);
  const env = { PATH: `${bin}${delimiter}${process.env.PATH}` };
  const { status } = spawnSync('bash', [join(folder, 'program.sh')], { env, timeout: 20_000, stdio: 'pipe' });
  const calls = readFileSync(join(folder, 'calls'), 'utf8').trimEnd().split('\n');
  return { folder, status, calls: calls.map((call) => call.replaceAll(folder, '')) };
}

const python = process.env.STATOR_TEST_SHELLCHECK_PYTHON;

/** Returns the codes of everything that ShellCheck says of a program for bash; undefined if it is not installed. */
export const lintShell = python === undefined || python === '' ? undefined : lint;

function lint(text: string): readonly string[] {
  const args = ['--shell=bash', '--exclude=SC1091', '--format=json', '-']; // a file that only the machine has
  const { stdout } = spawnSync(join(dirname(python ?? ''), 'shellcheck'), args, { input: text, encoding: 'utf8' });
  return (JSON.parse(stdout) as { readonly code: number }[]).map(({ code }) => `SC${code}`);
}

/** Throws unless bash can read a program. */
export function parseShell(text: string): void {
  execFileSync('bash', ['-n'], { input: text });
}
