import { chmodSync, chownSync, copyFileSync, cpSync, mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { NATIVE_CLIENT, NODE } from './environment.ts';

/** A user that owns nothing here, and what it needs to run a function, where it can read it. */
export interface OtherUser {
  readonly uid: number;
  readonly node: string;
  readonly runtimeClient: string;
  readonly nativeClient: string;
  /** Gives it a folder to write in. */
  own(folder: string): void;
}

/** `nobody` of most systems. */
const UID = 65_534;

/**
 * Lays Node and the runtime client where another user reads them, below `folder`, which it may enter from then on. Undefined where
 * this user may not start programs as another.
 */
export function makeOtherUser(folder: string): OtherUser | undefined {
  const client = process.env.STATOR_TEST_LAMBDA_RIC;
  if (process.getuid?.() !== 0 || !client) return undefined;
  chmodSync(folder, 0o755);
  const home = join(folder, 'runtime');
  mkdirSync(home);
  const [node, nativeClient] = [join(home, 'node'), join(home, basename(NATIVE_CLIENT))];
  copyFileSync(NODE, node);
  chmodSync(node, 0o755);
  copyFileSync(NATIVE_CLIENT, nativeClient);
  // With what lies beside it: the packages that it needs.
  const modules = client.slice(0, client.lastIndexOf('node_modules') + 'node_modules'.length);
  cpSync(modules, join(home, 'node_modules'), { recursive: true, dereference: true });
  return {
    uid: UID,
    node,
    nativeClient,
    runtimeClient: join(home, 'node_modules', client.slice(modules.length)),
    own: (own) => chownSync(own, UID, UID),
  };
}
