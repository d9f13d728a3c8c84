import { CUSTOM_TEMPLATE_ROLE, hubModelOfCard } from '../../artifacts/index.ts';
import { nameOfHubModel } from '../../config/index.ts';
import type { ModelRecord } from '../../discovery/index.ts';
import type { Finding } from './findings.ts';
import { groupBy } from './group-by.ts';
import { type Probes, TRIED_MAX } from './probes.ts';

interface FileNeeds {
  /** Model folder of the frontend's own; undefined = none. */
  readonly modelFolder: string | undefined;
  /** Whether the frontend must not download from the Hugging Face Hub. */
  readonly isHubOffline: boolean;
}

/** Looks for the files of each model of Dynamo's workers, once for each path. */
export async function examineFiles(
  models: readonly ModelRecord[],
  needs: FileNeeds,
  probes: Probes,
): Promise<readonly Finding[]> {
  if (needs.modelFolder !== undefined) return [];
  const theirs = models.filter(({ wire }) => wire === 'dynamo'); // Stator's workers serve their files themselves
  const byName = groupBy(theirs, ({ card }) => card.display_name);
  return Promise.all([...byName].map(([name, records]) => examineFilesOf(name, records, needs, probes)));
}

async function examineFilesOf(
  name: string,
  records: readonly ModelRecord[],
  needs: FileNeeds,
  probes: Probes,
): Promise<Finding> {
  const about = `files of ${name}`;
  const paths = [...new Set(records.flatMap(({ card }) => Object.values(card.files)).map(({ path }) => path))];
  const tried = paths.slice(0, TRIED_MAX);
  const faults = await Promise.all(tried.map((path) => lookFor(path, probes)));
  const missing = tried.flatMap((path, at) => (faults[at] === undefined ? [] : [{ path, fault: faults[at] }]));
  const [first] = missing;
  if (first === undefined) return { verdict: 'ok', about, says: `${tried.length} found` };
  const says = `${missing.length} of ${tried.length} missing, such as ${first.path}: ${first.fault}`;
  const hub = needs.isHubOffline ? undefined : hubInstead(records, new Set(missing.map(({ path }) => path)));
  if (hub !== undefined) {
    const remedy = 'if the workers have other files than the hub, --model-path with a folder of theirs';
    return { verdict: 'differs', about, says: `${says}; the frontend downloads ${hub} from the hub`, remedy };
  }
  const remedy =
    '--model-path with a folder or a model on the Hugging Face Hub that has them, or DYN_SYSTEM_PORT at the workers, which then serve them';
  return { verdict: 'fails', about, says, remedy };
}

/**
 * Returns the model on the Hugging Face Hub from which a frontend takes missing files; undefined if the hub cannot have
 * all of them.
 */
function hubInstead(records: readonly ModelRecord[], missing: ReadonlySet<string>): string | undefined {
  const cards = records.map(({ card }) => card);
  if (cards.some(({ files }) => missing.has(files[CUSTOM_TEMPLATE_ROLE]?.path ?? ''))) return undefined;
  const models = cards.map((card) => hubModelOfCard(card));
  const names = models.flatMap((model) => (model === undefined ? [] : [nameOfHubModel(model)]));
  return names.length < models.length ? undefined : [...new Set(names)].join(', ');
}

async function lookFor(path: string, probes: Probes): Promise<string | undefined> {
  if (path.startsWith('hf://')) return undefined; // the frontend downloads it from the Hugging Face Hub
  if (/^https?:\/\//.test(path)) return probes.url(path);
  return probes.file(path.replace(/^file:\/\//, ''));
}
