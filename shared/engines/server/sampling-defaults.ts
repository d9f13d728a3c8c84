import type { SamplingDefaults } from '../../discovery/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { type DefaultSampling, readDefaultSampling, readFolderSampling } from '../../tokens/index.ts';
import { asText } from '../http/upstream.ts';
import type { EngineInfo, SamplingSource } from '../types.ts';
import { argumentRecord, argumentValue } from './launch-plan.ts';

/** Returns the folder of a model; undefined if the name is neither a folder nor a model on the hub. */
type OpenFolder = (name: string) => Promise<string | undefined>;

/** Engine whose command line sets the source of its defaults. */
type Kind = 'vllm' | 'sglang' | 'trtllm';

const CONFIG_FLAG = '--generation-config';
const OVERRIDE_FLAG = '--override-generation-config';
const PREFERRED_FLAG = '--preferred-sampling-params';

/** Returns the source of an engine's sampling defaults according to its command line. */
export function samplingSourceIn(args: readonly string[], kind: Kind): SamplingSource {
  switch (kind) {
    case 'vllm':
      return vllmSource(argumentValue(args, CONFIG_FLAG), argumentRecord(args, OVERRIDE_FLAG));
    case 'sglang':
      return sglangSource(argumentValue(args, '--sampling-defaults'), argumentRecord(args, PREFERRED_FLAG));
    case 'trtllm':
      return { config: 'model', override: {}, own: {} };
  }
}

/** Returns vLLM's source. @param config `auto`, `vllm` for no file, or a folder or repository */
export function vllmSource(config: unknown, override: unknown): SamplingSource {
  const name = asText(config) ?? 'auto';
  const place = name === 'auto' ? 'model' : name === 'vllm' ? 'none' : { name };
  return { config: place, override: asRecord(override) ?? {}, own: {} };
}

/**
 * Returns SGLang's source. @param preferred values that the engine fills in; never its number of tokens, as each
 * request has one
 */
export function sglangSource(defaults: unknown, preferred: unknown): SamplingSource {
  const own = asRecord(preferred) ?? {};
  const { max_new_tokens } = own;
  const override = max_new_tokens === undefined ? {} : { max_new_tokens };
  return { config: defaults === 'openai' ? 'none' : 'model', override, own };
}

/**
 * Returns the defaults that frontends must fill in for an engine: those that it should sample by and does not fill in
 * itself. Rejects invalid values, naming file or flag.
 * @param ofModel sampling defaults of the model's own generation_config.json
 * @param open opens the folder of another model
 */
export async function samplingDefaultsOf(
  ofModel: DefaultSampling,
  source: SamplingSource,
  { fillsInSampling = false }: Pick<EngineInfo, 'fillsInSampling'>,
  open: OpenFolder,
): Promise<SamplingDefaults> {
  const { config, own } = source;
  const isPreferred = Object.keys(own).length > 0;
  const override = readDefaultSampling(source.override, isPreferred ? PREFERRED_FLAG : OVERRIDE_FLAG);
  const ofFile = config === 'model' ? ofModel : config === 'none' ? {} : await samplingIn(config.name, open);
  const all: DefaultSampling = { ...ofFile, ...override };
  // vLLM limits every request by the configured value, but not by the model's own file.
  const limit = typeof config === 'object' ? all.max_tokens : override.max_tokens;
  const left = Object.entries(all).filter(
    ([name]) => name === 'max_tokens' || !(fillsInSampling || Object.hasOwn(own, name)),
  );
  return { ...Object.fromEntries(left), ...(limit === undefined || isPreferred ? {} : { max_tokens_limit: limit }) };
}

async function samplingIn(name: string, open: OpenFolder): Promise<DefaultSampling> {
  const folder = await open(name);
  if (folder !== undefined) return readFolderSampling(folder);
  throw new Error(
    `the folder of ${CONFIG_FLAG} ${name} is not on this machine, and frontends need its values: download it ` +
      'first (hf download), or name its folder',
  );
}

/**
 * Returns where an engine's defaults come from: its command line if that is known, otherwise its server's information.
 */
export function samplingSourceOf(
  args: readonly string[] | undefined,
  kind: Kind,
  { samplingSource }: Pick<EngineInfo, 'samplingSource'>,
): SamplingSource {
  return args === undefined && samplingSource !== undefined ? samplingSource : samplingSourceIn(args ?? [], kind);
}

/** Returns the source in vLLM's `/server_info`. */
export function sourceInServerInfo(config: UnknownRecord | undefined): Pick<EngineInfo, 'samplingSource'> {
  const model = asRecord(config?.model_config);
  if (model === undefined || !('generation_config' in model)) return {};
  return { samplingSource: vllmSource(model.generation_config, model.override_generation_config) };
}
