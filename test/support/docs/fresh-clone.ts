import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, realpathSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));

/** The repository as somebody has it who just cloned it: no node_modules, no dist. With what is not committed yet. */
export interface FreshClone {
  readonly root: string;
  /** Defines the shell function `npm`, whose `ci` links the packages that are here instead of fetching them. */
  readonly npmFunction: string;
  /** As `npm ci --ignore-scripts`, in the same way. */
  install(): void;
  /** What git calls changed or new since the clone, a line each. */
  changes(): string;
  remove(): void;
}

function git(root: string, ...args: readonly string[]): string {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' });
}

/** Makes a fresh clone in a temporary folder. */
export function makeFreshClone(): FreshClone {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'stator-clone-')));
  for (const file of git(REPOSITORY, 'ls-files', '-co', '--exclude-standard', '-z').split('\0')) {
    const source = join(REPOSITORY, file);
    if (file === '' || statSync(source, { throwIfNoEntry: false })?.isFile() !== true) continue;
    mkdirSync(dirname(join(root, file)), { recursive: true });
    copyFileSync(source, join(root, file));
  }
  git(root, 'init', '--quiet');
  git(root, 'add', '--all');
  git(root, '-c', 'user.name=test', '-c', 'user.email=test@localhost', 'commit', '--quiet', '--message', 'As it is');
  // Links where the file system allows it, else copies. What npm has built beside the packages is not part of them.
  const link = `{ cp -al '${REPOSITORY}node_modules' node_modules || cp -a '${REPOSITORY}node_modules' node_modules; }`;
  const install = `rm -rf node_modules && ${link} && rm -rf node_modules/.cache`;
  return {
    root,
    npmFunction: `npm() { if [ "$1" = ci ]; then ${install} && command npm run --silent prepare; else command npm "$@"; fi; }`,
    install: () => void execFileSync('sh', ['-c', install], { cwd: root }),
    changes: () => git(root, 'status', '--porcelain'),
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}
