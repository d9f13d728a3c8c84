import type { UnknownRecord } from '../../records/index.ts';
import { DiscoveryError } from '../options.ts';
import type { ReportProblem } from '../types.ts';
import type { StoredRecord } from './dynamo-data.ts';
import { objectNameOf, type PodIdentity } from './identity.ts';
import { APPLY, type KubeClient } from './kube-client.ts';
import { KubeFailure } from './kube-errors.ts';
import { annotationOf, metadataOf, nameOf, ORDER_ANNOTATION, ownDataOf, podUidOf } from './objects.ts';
import { FIELD_MANAGER, orderTo, ownObject } from './own-object.ts';
import type { FollowedObjects, Reflector, ReflectorListener } from './reflector.ts';

export interface RegistrationOptions {
  readonly client: KubeClient;
  readonly identity: PodIdentity;
  /** Path of the list of all processes' objects. */
  readonly path: string;
  /** Id of this process: a container that starts again has another one. */
  readonly process: string;
  readonly report: ReportProblem;
  /** Called with the text of an order to drain. */
  readonly onOrder: (order: string) => void;
  /** Called if the object is gone and must be written again. */
  readonly onGone: () => void;
  readonly follow: (objects: FollowedObjects, listener: Pick<ReflectorListener, 'change' | 'show'>) => Reflector;
}

/**
 * The object in which a process registers. It watches the object: for orders to drain, and to write it again if
 * another program removed it. It leaves the object to another process that has taken it, until that one removes it.
 */
export class Registration {
  readonly #options: RegistrationOptions;
  readonly #name: string;
  #reflector: Reflector | undefined;
  /** Whether the object may exist, and is this process's. */
  #mayExist = false;
  #isReplaced = false;
  #isGone = false;
  #uid: unknown;

  constructor(options: RegistrationOptions) {
    this.#options = options;
    this.#name = objectNameOf(options.identity);
  }

  /** Whether the object was removed, and not by this process. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** Whether another process has taken the object, as a pod that has replaced this one and keeps its name. */
  get isReplaced(): boolean {
    return this.#isReplaced;
  }

  /** @throws DiscoveryError if another process has taken the object */
  assertOwn(): void {
    if (!this.#isReplaced) return;
    const hint = 'start this process in a pod with a name of its own, or end the other one';
    throw new DiscoveryError('misconfigured', `another process has registered as ${this.#name}: ${hint}`);
  }

  /** Writes the object with exactly these records, by bucket and key. */
  async apply(records: ReadonlyMap<string, StoredRecord>, signal: AbortSignal): Promise<void> {
    const { client, identity, path, process } = this.#options;
    this.#mayExist = true;
    const body = ownObject(this.#name, identity, process, records);
    const object = await applyAt(client, `${path}/${this.#name}`, body, signal);
    this.#uid = metadataOf(object).uid;
    this.#isGone = false;
  }

  /** Begins to watch the object. Idempotent. */
  follow(): void {
    if (this.#reflector !== undefined) return;
    const { path, follow } = this.#options;
    this.#reflector = follow(
      { path, fieldSelector: `metadata.name=${this.#name}` },
      {
        show: ([object]) => this.#note(object),
        change: (object, isGone) => this.#note(isGone ? undefined : object),
      },
    );
    this.#reflector.start();
  }

  close(): void {
    this.#reflector?.close();
  }

  /** Removes the object, unless another process has taken it. */
  async withdraw(signal: AbortSignal): Promise<void> {
    const { client, path } = this.#options;
    if (this.#mayExist && !this.#isReplaced) await deleteAt(client, `${path}/${this.#name}`, this.#uid, signal);
  }

  #note(object: UnknownRecord | undefined): void {
    const { process, identity, report, onOrder, onGone } = this.#options;
    if (object === undefined) {
      this.#isGone = true;
      this.#isReplaced = false;
      onGone();
      return;
    }
    this.#isGone = false;
    const isOwn = ownDataOf(object)?.process === process && podUidOf(object) === identity.uid;
    if (isOwn) {
      this.#isReplaced = false;
      const order = orderTo(process, annotationOf(object, ORDER_ANNOTATION));
      if (order !== undefined) onOrder(order);
    } else if (!this.#isReplaced) {
      this.#isReplaced = true;
      report(new Error(`another process registers as ${nameOf(object)}: no process finds this one any more`));
    }
  }
}

/** Writes an object by server-side apply: creates it, or sets its fields and removes those that are left out. */
export function applyAt(client: KubeClient, path: string, body: object, signal: AbortSignal): Promise<UnknownRecord> {
  const query = { fieldManager: FIELD_MANAGER, force: 'true' };
  return client.ask({ method: 'PATCH', path, query, body, contentType: APPLY }, signal);
}

/** Removes an object; with a uid, only if it still has that. No error if it is gone. */
export async function deleteAt(client: KubeClient, path: string, uid: unknown, signal: AbortSignal): Promise<void> {
  const preconditions = uid === undefined ? {} : { preconditions: { uid } };
  const body = { apiVersion: 'v1', kind: 'DeleteOptions', ...preconditions };
  try {
    await client.ask({ method: 'DELETE', path, body }, signal);
  } catch (thrown) {
    if (!(thrown instanceof KubeFailure && (thrown.isAbsent || thrown.isConflict))) throw thrown;
  }
}
