import { chmodSync, chownSync, copyFileSync, cpSync, mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { NATIVE_CLIENT, NODE } from './environment.ts';

/** A user without files here, and copies that it can read of what a function needs. */
export interface OtherUser {
  readonly uid: number;
  readonly node: string;
  readonly runtimeClient: string;
  readonly nativeClient: string;
  /** Gives the user a folder to write in. */
  own(folder: string): void;
}

/** The user `nobody` of most systems. */
const UID = 65_534;

/**
 * Copies Node and the runtime client to where another user can read them, below `folder`, which the user may enter from
 * then on. Returns undefined if this user may not start programs as another one.
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
  // The client, with the packages beside it that it needs.
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
