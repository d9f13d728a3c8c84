import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WorkerJoin } from '../../../shared/discovery/kubernetes/worker-join.ts';

type Ready = Readonly<Record<string, string>>;

const names = fc.constantFrom('a', 'b', 'c');
const uids = fc.constantFrom('u1', 'u2');
const step = fc.oneof(
  fc.record({
    kind: fc.constant('ready' as const),
    source: fc.constantFrom('s1', 's2'),
    ready: fc.dictionary(names, uids, { maxKeys: 3 }),
  }),
  fc.record({
    kind: fc.constant('object' as const),
    name: names,
    uid: uids,
    keys: fc.uniqueArray(fc.constantFrom('k1', 'k2')),
    text: fc.nat(3),
  }),
  fc.record({ kind: fc.constant('gone' as const), name: names }),
  fc.record({ kind: fc.constant('lists' as const) }),
);

function objectOf(name: string, uid: string, keys: readonly string[], text: number) {
  const records = Object.fromEntries(keys.map((key) => [`v1/instances ${key}`, `${name} ${text}`]));
  const metadata = { name, uid: `cr-${name}`, ownerReferences: [{ kind: 'Pod', uid }] };
  return { metadata, spec: { data: { stator: { process: 'p', records } } } };
}

describe('the join of objects and ready pods', () => {
  it('agrees with a plain join after any changes, and tells each change once', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const told = new Map<string, string>();
        const join = new WorkerJoin((_place, key, text) => {
          expect(told.get(key)).not.toBe(text);
          if (text === undefined) told.delete(key);
          else told.set(key, text);
        });
        const sources = new Map<string, Ready>();
        const objects = new Map<string, ReturnType<typeof objectOf>>();
        for (const each of steps) {
          if (each.kind === 'ready') {
            sources.set(each.source, each.ready);
            join.changeReady(each.source, new Map(Object.entries(each.ready)));
          } else if (each.kind === 'object') {
            const object = objectOf(each.name, each.uid, each.keys, each.text);
            objects.set(each.name, object);
            join.changeWorker(object, false);
          } else if (each.kind === 'gone') {
            objects.delete(each.name);
            join.changeWorker({ metadata: { name: each.name } }, true);
          } else {
            join.showReady(new Map([...sources].map(([source, ready]) => [source, new Map(Object.entries(ready))])));
            join.showWorkers([...objects.values()]);
          }
          const possible = visibleBy(sources, objects);
          expect([...told.keys()].sort()).toEqual([...possible.keys()].sort());
          for (const [key, text] of told) expect(possible.get(key)).toContain(text);
          expect(join.textsOf('v1/instances', false)).toEqual(told);
        }
      }),
      { numRuns: 300 },
    );
  });
});

/** Texts that a key may have: those of all objects whose name is ready with one uid, that of their owner. */
function visibleBy(sources: ReadonlyMap<string, Ready>, objects: ReadonlyMap<string, ReturnType<typeof objectOf>>) {
  const possible = new Map<string, string[]>();
  for (const [name, object] of objects) {
    const found = new Set([...sources.values()].flatMap((ready) => (ready[name] === undefined ? [] : [ready[name]])));
    if (found.size !== 1 || !found.has(object.metadata.ownerReferences[0]?.uid ?? '')) continue;
    for (const [address, text] of Object.entries(object.spec.data.stator.records)) {
      const key = address.slice('v1/instances '.length);
      possible.set(key, [...(possible.get(key) ?? []), text]);
    }
  }
  return possible;
}
