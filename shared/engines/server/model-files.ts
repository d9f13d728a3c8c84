import { describeChatTemplate, findLocalModel, hubModelOf, openModel } from '../../artifacts/index.ts';
import type { ResolvedConfig, Settings } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { type DefaultSampling, readModelInfo } from '../../tokens/index.ts';
import type { Engine, EngineContext, EngineInfo, ModelFacts, OpenedEngine } from '../types.ts';
import { REVISION_FLAG, serverSettings } from './launch.ts';
import { argumentValue } from './launch-plan.ts';
import { samplingDefaultsOf, samplingSourceOf } from './sampling-defaults.ts';

/** Tools of the worker with which the files of a model are found. */
type FileContext = Pick<EngineContext, 'clock' | 'logger' | 'signal'>;

/**
 * Returns `engine` with the facts about the model that it will load. The files that frontends need come from this
 * machine, or from the hub. Rejects when the engine must be started, which may take minutes, and there are no such
 * files; an engine that renders chats itself does not need them.
 */
export async function openedServer(
  engine: Engine,
  config: ResolvedConfig<'worker'>,
  context: FileContext,
): Promise<OpenedEngine> {
  const { settings } = config;
  const { url, takesText, takesMedia } = serverSettings(config);
  if (url === undefined && !takesText && !takesMedia) await filesOf(settings, context);
  const model = async (info: EngineInfo): Promise<ModelFacts> => {
    const { modelInput, modelPath, takesMediaChats } = info;
    if (modelInput === 'Text') return {};
    const found =
      takesMediaChats === true
        ? await findLocalFiles(settings, context, modelPath)
        : await filesOf(settings, context, modelPath);
    if (found === undefined) return {};
    const { defaultSampling, ...facts } = found;
    const { engineArguments, engine: kind } = settings;
    if (kind !== 'vllm' && kind !== 'sglang' && kind !== 'trtllm') return facts;
    const source = samplingSourceOf(url === undefined ? engineArguments : undefined, kind, info);
    const open = (name: string): Promise<string | undefined> => openModel(name, { ...context, settings });
    return { ...facts, samplingDefaults: await samplingDefaultsOf(defaultSampling, source, info, open) };
  };
  return { engine, model };
}

/** Facts from the files of a model, including those of its generation_config.json. */
interface FoundModel extends ModelFacts {
  readonly defaultSampling: DefaultSampling;
}

/**
 * Returns the files of an engine's model, for the card: frontends tokenize for it. Rejects when they are neither on
 * this machine nor on the hub.
 * @param loaded model that a running engine reports
 */
async function filesOf(settings: Settings<'worker'>, context: FileContext, loaded?: string): Promise<FoundModel> {
  const faults: string[] = [];
  const names = namesOf(settings, loaded);
  for (const name of names) {
    try {
      const folder = await openModel(name, { ...context, settings });
      if (folder !== undefined) return await readFiles(name, folder, settings, context);
    } catch (thrown) {
      context.signal?.throwIfAborted();
      if (hubModelOf(name) === undefined) throw thrown;
      faults.push(reasonOf(thrown));
    }
  }
  const looked = names.length === 0 ? '' : ` (looked for ${[...new Set(names)].join(', ')})`;
  const why = faults.length === 0 ? '' : `${faults.join('; ')}. Or `;
  throw new Error(
    `the model's files are not on this machine${looked}, and frontends tokenize with them: ${why}` +
      'give their folder with --model-path, or let the engine tokenize (--use-vllm-tokenizer)',
  );
}

/** Finds the files without asking the hub; undefined if they are not on this machine. */
async function findLocalFiles(
  settings: Settings<'worker'>,
  context: FileContext,
  loaded?: string,
): Promise<FoundModel | undefined> {
  for (const name of namesOf(settings, loaded)) {
    const folder = await findLocalModel(name, settings);
    if (folder !== undefined) return readFiles(name, folder, settings, context);
  }
  return undefined;
}

async function readFiles(
  name: string,
  folder: string,
  settings: Settings<'worker'>,
  context: FileContext,
): Promise<FoundModel> {
  const { customJinjaTemplate: template } = settings;
  const { files: own, contextLength, bosTokenId, defaultSampling } = await readModelInfo(folder);
  const read = await withTokenizer(own, settings, context);
  const files = template === undefined ? read : { ...read, ...(await describeChatTemplate(template)) };
  return { files, contextLength, bosTokenId, defaultSampling, sourcePath: name };
}

/** Files that stay the model's own if its tokenizer comes from another model. */
const OWN_FILES: ReadonlySet<string> = new Set(['config.json', 'generation_config.json']);

/**
 * Returns `own` with the tokenizer and the template that the engine was configured to take from another model: ids of a
 * different tokenizer would have other meanings to it. Rejects when they are neither on this machine nor on the hub.
 */
async function withTokenizer(
  own: NonNullable<ModelFacts['files']>,
  settings: Settings<'worker'>,
  context: FileContext,
): Promise<NonNullable<ModelFacts['files']>> {
  const { engine, engineArguments } = settings;
  const flag = engine === 'sglang' ? '--tokenizer-path' : '--tokenizer';
  const given = argumentValue(engineArguments, flag);
  if (given === undefined) return own;
  const name = atRevision(given, argumentValue(engineArguments, '--tokenizer-revision'));
  const refuse = (reason: string): Error =>
    new Error(
      `the files of ${flag} ${name} are not on this machine, and frontends have to tokenize as the engine does: ${reason}` +
        'name their folder, or let the engine tokenize (--use-vllm-tokenizer)',
    );
  const folder = await openModel(name, { ...context, settings }).catch((thrown) => {
    context.signal?.throwIfAborted();
    throw refuse(`${reasonOf(thrown)}. Or `);
  });
  if (folder === undefined) throw refuse('');
  const isOf =
    (kept: boolean) =>
    ([role]: readonly [string, unknown]) =>
      OWN_FILES.has(role) === kept;
  const { files } = await readModelInfo(folder);
  return Object.fromEntries([...Object.entries(own).filter(isOf(true)), ...Object.entries(files).filter(isOf(false))]);
}

/** Returns the names of the engine's model, on the hub at the revision that the engine loads. */
function namesOf(
  { modelPath, model, engineArguments, engineUrl }: Settings<'worker'>,
  loaded: string | undefined,
): readonly string[] {
  const revision = engineUrl === undefined ? argumentValue(engineArguments, REVISION_FLAG) : undefined;
  return [modelPath, model, loaded].flatMap((name) => (name === undefined ? [] : [atRevision(name, revision)]));
}

function atRevision(name: string, revision: string | undefined): string {
  return revision === undefined || name.includes('@') || hubModelOf(name) === undefined ? name : `${name}@${revision}`;
}
