import { describe, expect, it } from 'vitest';
import { LiveModelDirectory } from '../../../../shared/pipeline/index.ts';
import type { ModelDirectoryOptions } from '../../../../shared/pipeline/models/model-directory.ts';
import { endpointAt, modelAt } from '../../../contract/discovery/records.ts';
import { FleetBed } from '../../discovery/fleet-bed.ts';

const NAME = 'Tiny/Model-1.0'; // as the records name it
const AT = 'ns/backend/generate/a';
const PLANNED = [{ namespace: 'planned', model: NAME }];

async function openEdge(bed: FleetBed, options: Partial<ModelDirectoryOptions>): Promise<LiveModelDirectory> {
  const directory = new LiveModelDirectory({ discovery: bed.open().discovery, clock: bed.clock, ...options });
  const starting = directory.start();
  await bed.pass(1000);
  await starting;
  return directory;
}

describe('planned models', () => {
  it('are known without workers before any worker came', async () => {
    const directory = await openEdge(new FleetBed(), { planned: PLANNED });
    expect(directory.known(NAME)).toMatchObject({ isPlanned: true, namespace: 'planned', workers: [] });
    expect(directory.known(NAME)?.readiness.isReady).toBe(false);
    expect(directory.listKnown().map(({ name }) => name)).toEqual([NAME]);
    expect([directory.find(NAME), directory.list(), directory.known('another')]).toEqual([undefined, [], undefined]);
  });

  it('give way to a worker, and then to the entry of the catalogue, for as long as there is one', async () => {
    const bed = new FleetBed();
    const directory = await openEdge(bed, { planned: PLANNED });
    const worker = bed.open();
    await worker.discovery.put(endpointAt(AT));
    await worker.discovery.put(modelAt(AT));
    await bed.pass(20_000);
    expect(directory.known(NAME)).toMatchObject({ namespace: 'ns', workers: [{ id: 'a' }] });
    expect(directory.listKnown()).toHaveLength(1);
    await worker.discovery.close();
    await bed.pass(20_000);
    expect(directory.known(NAME)).toMatchObject({ namespace: 'ns', workers: [] });
    expect(directory.known(NAME)?.isPlanned).toBeUndefined();
  });

  it('are left out outside the scope, and have the name that the operator chose', async () => {
    const elsewhere = await openEdge(new FleetBed(), { planned: PLANNED, namespace: 'ns' });
    expect(elsewhere.known(NAME)).toBeUndefined();
    const renamed = await openEdge(new FleetBed(), { planned: PLANNED, modelName: 'ours' });
    expect([renamed.known('ours')?.isPlanned, renamed.known(NAME)]).toEqual([true, undefined]);
    expect(renamed.known('ours')?.card.display_name).toBe(NAME);
  });
});
