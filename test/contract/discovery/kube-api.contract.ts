import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import type { KubeAccess } from '../../../shared/discovery/kubernetes/access.ts';
import { APPLY, KubeClient, MERGE, type OpenWatch } from '../../../shared/discovery/kubernetes/kube-client.ts';
import { metadataOf, pathsIn } from '../../../shared/discovery/kubernetes/objects.ts';
import type { UnknownRecord } from '../../../shared/records/index.ts';
import { waitUntil } from '../../support/index.ts';

/** An API server as discovery reaches it. */
export interface KubeApiHarness {
  readonly access: KubeAccess;
  /** Namespace without objects. */
  readonly namespace: string;
  /** Makes the server forget all changes before now. */
  compact(): Promise<void>;
  close(): Promise<void>;
}

const signal = new AbortController().signal;

/** Says what discovery relies on in answers of an API server. The fake one must pass it like a real one. */
export function describeKubeApi(name: string, start: () => Promise<KubeApiHarness>): void {
  describe(name, () => {
    let harness: KubeApiHarness;
    let client: KubeClient;
    let path: string;
    const watches: OpenWatch[] = [];
    beforeEach(async () => {
      harness = await start();
      client = new KubeClient({ access: harness.access, clock: systemClock });
      path = pathsIn(harness.namespace).leases;
    });
    afterEach(async () => {
      for (const watch of watches.splice(0)) watch.close();
      client.close();
      await harness.close();
    });

    /** Applies a lease with these labels. */
    const apply = (lease: string, labels: Readonly<Record<string, string>> = {}) => {
      const kind = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' };
      const body = { ...kind, metadata: { name: lease, labels }, spec: {} };
      const query = { fieldManager: 'stator', force: 'true' };
      return client.ask({ method: 'PATCH', path: `${path}/${lease}`, query, body, contentType: APPLY }, signal);
    };
    const merge = (lease: string, metadata: object) =>
      client.ask({ method: 'PATCH', path: `${path}/${lease}`, body: { metadata }, contentType: MERGE }, signal);
    const remove = (lease: string, uid?: unknown) => {
      const body = { apiVersion: 'v1', kind: 'DeleteOptions', ...(uid ? { preconditions: { uid } } : {}) };
      return client.ask({ method: 'DELETE', path: `${path}/${lease}`, body }, signal);
    };
    const list = (query: Readonly<Record<string, string>> = {}) => client.ask({ path, query }, signal);
    const versionOf = (object: UnknownRecord) => String(metadataOf(object).resourceVersion);
    /** Opens a watch that notes its events in short. */
    const watch = async (version: string, query: Readonly<Record<string, string>> = {}) => {
      const events: string[] = [];
      const hear = ({ type, object }: UnknownRecord): void => {
        const { code, metadata } = object as { readonly code?: number; readonly metadata?: UnknownRecord };
        const { name: lease, resourceVersion, labels = {} } = metadata ?? {};
        if (type !== 'BOOKMARK')
          events.push(
            type === 'ERROR' ? `ERROR ${code}` : `${type} ${lease} ${resourceVersion} ${JSON.stringify(labels)}`,
          );
      };
      const asked = {
        ...query,
        watch: '1',
        resourceVersion: version,
        allowWatchBookmarks: 'true',
        timeoutSeconds: '60',
      };
      watches.push(await client.watch({ path, query: asked }, hear, () => {}, signal));
      return events;
    };

    it('gives an object another version only if a write changes it', async () => {
      const first = await apply('a', { kept: 'x' });
      expect(versionOf(await apply('a', { kept: 'x' }))).toBe(versionOf(first));
      const annotated = await merge('a', { annotations: { order: 'drain' } });
      expect(Number(versionOf(annotated))).toBeGreaterThan(Number(versionOf(first)));
      expect(versionOf(await merge('a', { annotations: { order: 'drain' } }))).toBe(versionOf(annotated));
    });

    it('removes the fields that an apply no longer names, and leaves those of others', async () => {
      await apply('a', { first: 'x' });
      await merge('a', { annotations: { order: 'drain' } });
      expect(metadataOf(await apply('a', { second: 'y' }))).toMatchObject({
        labels: { second: 'y' },
        annotations: { order: 'drain' },
      });
      expect(metadataOf(await apply('a', { second: 'y' })).labels).toEqual({ second: 'y' });
    });

    it('removes an object only by its uid, if the call names one', async () => {
      const { uid } = metadataOf(await apply('a'));
      await expect(remove('a', '00000000-0000-4000-8000-000000000000')).rejects.toMatchObject({ status: 409 });
      await remove('a', uid);
      await expect(remove('a', uid)).rejects.toMatchObject({ status: 404 });
      await expect(merge('a', {})).rejects.toMatchObject({ status: 404 });
    });

    it('lists pages of one version, and refuses the rest of a list that it has forgotten', async () => {
      for (const lease of ['c', 'a', 'b']) await apply(lease);
      const first = await list({ limit: '2' });
      await apply('d');
      const token = String(metadataOf(first).continue);
      const rest = await list({ limit: '2', continue: token });
      const names = [first, rest].map(({ items }) => (items as UnknownRecord[]).map((item) => metadataOf(item).name));
      expect(names).toEqual([['a', 'b'], ['c']]);
      expect(versionOf(rest)).toBe(versionOf(first));
      await harness.compact();
      await expect(list({ limit: '2', continue: token })).rejects.toMatchObject({ status: 410, isVersionGone: true });
    });

    it('tells a watch what changed after its version, and of an object that is no longer selected as it was', async () => {
      await apply('a', { chosen: 'yes' });
      const events = await watch(versionOf(await list()), { labelSelector: 'chosen=yes' });
      const changes = [];
      for (const labels of [{ chosen: 'yes', more: 'x' }, { chosen: 'no' }, { chosen: 'yes' }]) {
        changes.push(versionOf(await apply('a', labels)));
        await apply('a', labels);
      }
      await apply('other');
      await remove('a');
      await waitUntil(() => events.length >= 4);
      const [second, third, fourth] = changes;
      expect(events.slice(0, 3)).toEqual([
        `MODIFIED a ${second} {"chosen":"yes","more":"x"}`,
        `DELETED a ${third} {"chosen":"yes","more":"x"}`,
        `ADDED a ${fourth} {"chosen":"yes"}`,
      ]);
      expect(events.slice(3)).toEqual([expect.stringMatching(/^DELETED a \d+ \{"chosen":"yes"\}$/)]);
      expect(Number(events[3]?.split(' ')[2])).toBeGreaterThan(Number(fourth));
    });

    it('ends a watch from a version that it has forgotten with 410', async () => {
      const version = versionOf(await apply('a'));
      await apply('b');
      await harness.compact();
      const events = await watch(version);
      await waitUntil(() => events.length > 0);
      expect(events).toEqual(['ERROR 410']);
    });

    it('tells a watch nothing from a version that it has not reached', async () => {
      const version = versionOf(await apply('a'));
      const ahead = await watch(String(Number(version) + 1_000_000));
      const events = await watch(version);
      await apply('b');
      await waitUntil(() => events.length === 1);
      expect(ahead).toEqual([]);
    });
  });
}
