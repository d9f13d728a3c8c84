import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, realpathSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));

/** A fresh clone of the repository, without node_modules and dist. It includes changes that are not committed yet. */
export interface FreshClone {
  readonly root: string;
  /** Definition of the shell function `npm`, whose `ci` links the installed packages instead of fetching them. */
  readonly npmFunction: string;
  /** Installs as `npm ci --ignore-scripts` does, by the same links. */
  install(): void;
  /** Returns the files that git reports as changed or new since the clone, one line each. */
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
  // Links if the file system allows it, otherwise copies. Files that npm built beside the packages are not included.
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
