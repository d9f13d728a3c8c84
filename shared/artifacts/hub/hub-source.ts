import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { type HubModel, nameOfHubModel, parseHubModel } from '../../config/index.ts';
import { compareModelFile, type ModelFile } from '../../tokens/index.ts';
import type { ArtifactSource } from '../fetching/sources.ts';
import { CUSTOM_TEMPLATE_ROLE } from '../open-model-folder.ts';
import { CachedModel } from './cache.ts';
import { HubClient } from './client.ts';
import { HubFault } from './faults.ts';
import type { HubPlace } from './place.ts';

/** Facts of a card about its model. */
interface NamedModel {
  readonly display_name: string;
  /** Model that the worker loaded, if the display name is another one. */
  readonly source_path?: string | undefined;
  /** Files by role. */
  readonly files: Readonly<Record<string, ModelFile>>;
}

/**
 * Returns the model on the hub that a card means: that of its files, which cards of Dynamo name `hf://ORG/NAME/FILE`,
 * or that of its source or name. Returns undefined if none of these is the name of a model.
 */
export function hubModelOfCard({ display_name, source_path, files }: NamedModel): HubModel | undefined {
  const path = Object.values(files).find((file) => file.path.startsWith('hf://'))?.path;
  return parseHubModel(path?.slice(0, path.lastIndexOf('/')) ?? source_path ?? display_name);
}

/**
 * Reads the files of a model from the hub, `hf://ORG/NAME/FILE`, or from the copy in its cache if that is the same
 * file. It writes nothing into the cache, because a process without a home reads from here, too.
 */
export function hubSource(model: HubModel, place: HubPlace, clock: Clock): ArtifactSource {
  const client = new HubClient(place, clock);
  const cached = new CachedModel(place.cache, model);
  return {
    kind: 'hub',
    place: `${place.endpoint}/${nameOfHubModel(model)}`,
    async read(file, signal) {
      if (file.name === CUSTOM_TEMPLATE_ROLE) throw new HubFault('the template is not one of the model');
      const found = await cached.find();
      const path = found && join(found.folder, file.name);
      if (path !== undefined && (await compareModelFile(path, { ...file, path })) === 'same') {
        return createReadStream(path, { signal });
      }
      if (place.isOffline) throw new HubFault('HF_HUB_OFFLINE forbids to download it');
      return (await client.open(model, model.revision, file.name, 0, signal)).body;
    },
  };
}
