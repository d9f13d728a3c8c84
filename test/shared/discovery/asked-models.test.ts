import { beforeEach, describe, expect, it } from 'vitest';
import { INDEX_CELL_KEY } from '../../../shared/discovery/dynamodb/schema.ts';
import type { ModelRecord } from '../../../shared/discovery/records.ts';
import { endpointAt, modelAt, Witness } from '../../contract/discovery/records.ts';
import { type BedProcess, FleetBed } from './fleet-bed.ts';

const FUNCTION = { isLasting: false, showsAskedModels: true } as const;
const OTHERS = 400;
const instances = { bucket: 'v1/instances', prefix: '' } as const;
const cards = { bucket: 'v1/mdc', prefix: '' } as const;

type Card = ModelRecord['card'];

/** A model record of a worker. */
function offer(path: string, card: Partial<Card>, suffix?: string): ModelRecord {
  const record = modelAt(path, suffix);
  return { ...record, card: { ...record.card, ...card } };
}

let bed: FleetBed;

async function startWorker(path: string, ...models: readonly ModelRecord[]): Promise<BedProcess> {
  const worker = bed.open();
  await worker.discovery.put(endpointAt(path));
  for (const record of models) await worker.discovery.put(record);
  return worker;
}

/** A function that follows instances and cards, as a frontend does. */
async function startFunction() {
  const process = bed.open(FUNCTION);
  const [seen, offered] = [new Witness(), new Witness()];
  await process.discovery.watch(instances, seen);
  await process.discovery.watch(cards, offered);
  const catalogue: string[][] = [];
  process.discovery.catalogue.watch((models) => void catalogue.push(models.map(({ card }) => card.display_name)));
  const show = async (name: string | undefined): Promise<void> => {
    await process.discovery.shownModels?.show(name);
  };
  const names = () =>
    [...offered.present.values()].map((record) => (record.type === 'Model' ? record.card.display_name : '')).sort();
  return { ...process, seen, names, show, catalogue };
}

describe('a function of a large fleet', { timeout: 60_000 }, () => {
  beforeEach(async () => {
    bed = new FleetBed();
    // Processes that do not follow the fleet cost the bed little: the first gathers, the others renew.
    for (let at = 0; at < OTHERS; at++) {
      const name = `other-${at % 20}`;
      const path = `dynamo/backend/generate/a${at.toString(16)}`;
      await startWorker(path, offer(path, { display_name: name, aliases: [`${name}-alias`] }));
    }
    await startWorker('dynamo/router/choose/b1');
    await startWorker(
      'dynamo/backend/generate/c1',
      offer('dynamo/backend/generate/c1', { display_name: 'asked', aliases: ['short'] }),
    );
    await startWorker('prod/backend/generate/c2', offer('prod/backend/generate/c2', { display_name: 'asked' }));
    await bed.pass(4000, 500);
  });

  it('knows at first who has no model, then whom it was asked for, by name or alias, and follows them', async () => {
    const edge = await startFunction();
    expect(edge.seen.keys).toEqual(['dynamo/router/choose/b1']);
    expect(edge.discovery.shownModels?.isWhole).toBe(false);
    await edge.show('short');
    expect(edge.seen.keys).toEqual([
      'dynamo/backend/generate/c1',
      'dynamo/router/choose/b1',
      'prod/backend/generate/c2',
    ]);
    expect(edge.names()).toEqual(['asked', 'asked']);
    expect(edge.discovery.shownModels?.show('asked')).toBeUndefined(); // nothing to wait for
    await startWorker('dynamo/backend/generate/c3', offer('dynamo/backend/generate/c3', { display_name: 'asked' }));
    await bed.pass(4000, 500);
    await edge.discovery.refresh(1000);
    expect(edge.seen.keys).toContain('dynamo/backend/generate/c3');
    expect(edge.names()).toEqual(['asked', 'asked', 'asked']);
    expect(edge.problems).toEqual([]);
  });

  it('reads no card and few cells of models that it was not asked for', async () => {
    const edge = await startFunction();
    const atStart = edge.client.counts.reads;
    expect(atStart).toBeLessThanOrEqual(6); // two watches: head, index and first cell, the rest of who has no model
    await edge.show('other-3-alias');
    expect(edge.client.counts.reads - atStart).toBeLessThanOrEqual(3); // head, cells, the card
    expect(new Set(edge.names())).toEqual(new Set(['other-3']));
    expect(edge.names()).toHaveLength(OTHERS / 20);
    const before = edge.client.counts.reads;
    await bed.pass(2000, 500);
    await edge.discovery.refresh(1000);
    expect(edge.client.counts.reads - before).toBeLessThanOrEqual(2);
  });

  it('looks at the head again although it is asked for one model after the other', async () => {
    const edge = await startFunction();
    for (let at = 0; at < 10; at++) {
      await edge.discovery.refresh(1000); // as before each request
      await edge.show(`other-${at}`);
      if (at === 2)
        await startWorker(
          'dynamo/backend/generate/c4',
          offer('dynamo/backend/generate/c4', { display_name: 'other-1' }),
        );
      await bed.pass(900, 300);
    }
    expect(new Set(edge.sources)).toEqual(new Set(['view'])); // no reading of all leases
    expect(edge.seen.keys).toContain('dynamo/backend/generate/c4');
  });

  it('knows all once it was asked for all', async () => {
    const edge = await startFunction();
    await edge.show(undefined);
    expect(edge.discovery.shownModels?.isWhole).toBe(true);
    expect(edge.seen.keys).toHaveLength(OTHERS + 3);
    expect(new Set(edge.names()).size).toBe(21);
    await bed.pass(2000, 500);
    await edge.discovery.refresh(1000);
    expect(edge.seen.keys).toHaveLength(OTHERS + 3);
  });

  it('knows an adapter with its base, and prefill workers with those that they help', async () => {
    const path = 'dynamo/backend/generate/d1';
    await startWorker(
      path,
      offer(path, { display_name: 'base' }),
      offer(path, { display_name: 'tuned', lora: { name: 'tuned' } }, 'tuned'),
    );
    const [prefill, decode] = ['dynamo/prefill/generate/e1', 'dynamo/decode/generate/e2'];
    await startWorker(prefill, offer(prefill, { display_name: 'split', worker_type: 'prefill' }));
    await startWorker(decode, offer(decode, { display_name: 'split', worker_type: 'decode', needs: [['prefill']] }));
    await bed.pass(4000, 500);
    const edge = await startFunction();
    await edge.show('tuned');
    expect(edge.names()).toEqual(['base', 'tuned']);
    await edge.show('split');
    expect(edge.names()).toEqual(['base', 'split', 'split', 'tuned']);
  });

  it('knows an adapter that a worker loads later', async () => {
    const path = 'dynamo/backend/generate/d1';
    const worker = await startWorker(path, offer(path, { display_name: 'base' }));
    await bed.pass(4000, 500);
    const edge = await startFunction();
    await edge.show('late');
    expect(edge.names()).toEqual([]);
    await worker.discovery.put(offer(path, { display_name: 'late', lora: { name: 'late' } }, 'late'));
    await bed.pass(4000, 500);
    await edge.show('late'); // what it knows is not current: it looks again
    expect(edge.names()).toEqual(['base', 'late']);
  });

  it('knows a model without workers by its name and alias, of the catalogue', async () => {
    const path = 'dynamo/backend/generate/f1';
    const worker = await startWorker(path, offer(path, { display_name: 'idle', aliases: ['lazy'] }));
    await bed.pass(1000, 500);
    await worker.discovery.close();
    await bed.pass(20_000, 500);
    for (const name of ['idle', 'lazy']) {
      const edge = await startFunction();
      expect(edge.catalogue.at(-1)).toEqual([]);
      await edge.show(name);
      expect(edge.catalogue.at(-1)).toEqual(['idle']);
      expect(edge.names()).toEqual([]);
    }
  });

  it('keeps what it knows through a gatherer that goes, and knows new models from the next one', async () => {
    const edge = await startFunction();
    await edge.show('asked');
    const gatherer = bed.processes.find(({ gathering }) => gathering.at(-1) === true);
    gatherer?.freeze();
    for (let second = 0; second < 30; second++) {
      await bed.pass(1000, 500);
      await edge.discovery.refresh(1000);
      expect(edge.seen.present.has('dynamo/backend/generate/c1')).toBe(true);
    }
    expect(edge.seen.events.filter(({ kind, key }) => kind === 'removed' && key.includes('/c'))).toEqual([]);
    await edge.show('other-7');
    expect(new Set(edge.names())).toEqual(new Set(['asked', 'other-7']));
  });

  it('fails within two seconds to show a model while the index of a new gatherer is not to be had', async () => {
    const edge = await startFunction();
    bed.processes.find(({ gathering }) => gathering.at(-1) === true)?.freeze();
    await bed.follow(); // and takes the place of the one that is gone
    await bed.pass(30_000, 500);
    const { table } = edge.client;
    const { signal } = new AbortController();
    await table.update('SET fence = :old', { key: INDEX_CELL_KEY, values: { ':old': 0 } }, signal); // as a replica has it
    edge.client.delay(300);
    const beganMs = bed.clock.nowMs();
    let failedAfterMs: number | undefined;
    const asked = edge.show('other-1').catch(() => {
      failedAfterMs = bed.clock.nowMs() - beganMs;
    });
    await bed.pass(12_000, 50);
    await asked;
    expect(failedAfterMs).toBeLessThanOrEqual(2050);
    expect(edge.seen.keys).toContain('dynamo/router/choose/b1'); // what it knew stays
  });

  it('fails to show a model while the table is unreachable, and has it when it is back', async () => {
    const edge = await startFunction();
    await edge.show('asked');
    edge.client.cut(true);
    await bed.pass(3000, 500);
    let failure: Error | undefined;
    const asked = edge.show('other-1').catch((thrown: Error) => {
      failure = thrown;
    });
    await bed.pass(3000, 100);
    await asked;
    expect(failure).toBeInstanceOf(Error);
    expect(edge.discovery.shownModels?.show('asked')).toBeUndefined(); // what it showed stays
    edge.client.cut(false);
    await bed.pass(6000, 500);
    await edge.show('other-1');
    expect(new Set(edge.names())).toEqual(new Set(['asked', 'other-1']));
  });
});

describe('a function of a small fleet', () => {
  it('knows all of it from the start', async () => {
    bed = new FleetBed();
    for (const id of ['a1', 'a2']) {
      const path = `dynamo/backend/generate/${id}`;
      await startWorker(path, offer(path, { display_name: `model-${id}` }));
    }
    await bed.pass(3000, 500);
    const edge = await startFunction();
    expect(edge.discovery.shownModels?.isWhole).toBe(true);
    expect(edge.names()).toEqual(['model-a1', 'model-a2']);
  });
});
