import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { findLocalModel } from '../artifacts/index.ts';
import type { RouterSettings } from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';
import {
  createKeyedTracking,
  createPrefillEstimate,
  KEY_BYTES,
  KvRouterConfigError,
  type PolicyConfig,
  type PrefillDurationModel,
  readModelShape,
  type TrackingHash,
} from '../scheduler/index.ts';

/** Contents of the files that a router's settings name. */
export interface RouterFiles {
  /** Queue classes, and settings that override flags. */
  readonly policies: PolicyConfig | undefined;
  /** Predicts prefills. */
  readonly prefillDuration: PrefillDurationModel | undefined;
  /** Names the blocks of running requests. */
  readonly tracking: TrackingHash | undefined;
}

/** Reads the files. @throws KvRouterConfigError for a file that cannot be used */
export async function readRouterFiles(settings: RouterSettings): Promise<RouterFiles> {
  const policies = await readPolicies(settings.routerPolicyConfig);
  const { prefillLoadModel = settings.routerPrefillLoadModel } = policies?.settings ?? {};
  return {
    policies,
    prefillDuration: prefillLoadModel === 'aic' ? await openPrefillModel(settings) : undefined,
    tracking: await openTracking(settings),
  };
}

/**
 * Reads the file of `--router-policy-config`; undefined without one.
 * @throws KvRouterConfigError that names the field, Error with one line if the file cannot be read
 */
async function readPolicies(path: string | undefined): Promise<PolicyConfig | undefined> {
  if (path === undefined) return undefined;
  let yaml: string;
  try {
    yaml = await readFile(path, 'utf8');
  } catch (cause) {
    throw new Error(`--router-policy-config: ${reasonOf(cause)}`, { cause });
  }
  const { parsePolicyConfig } = await import('../scheduler/index.ts'); // loads a YAML reader, only if there is a file
  return parsePolicyConfig(yaml);
}

/**
 * Opens the model that predicts prefills with `--router-prefill-load-model aic`.
 * @throws KvRouterConfigError for a model folder that cannot be read, and as `createPrefillEstimate`
 */
async function openPrefillModel(settings: RouterSettings): Promise<PrefillDurationModel> {
  return createPrefillEstimate({
    backend: settings.aicBackend ?? '',
    system: settings.aicSystem ?? '',
    shape: readModelShape(await readModelConfig(settings)),
    tpSize: settings.aicTpSize ?? 1,
    attentionDpSize: settings.aicAttentionDpSize,
    moeTpSize: settings.aicMoeTpSize,
    moeEpSize: settings.aicMoeEpSize,
  });
}

async function readModelConfig(settings: RouterSettings): Promise<unknown> {
  const { aicModelPath: model = '' } = settings;
  const folder = await findLocalModel(model, settings);
  const refuse = (reason: string): KvRouterConfigError =>
    new KvRouterConfigError('aic_model_path', `--aic-model-path ${JSON.stringify(model)}: ${reason}`);
  if (folder === undefined) throw refuse('no such folder, and no such model in the Hugging Face cache of this machine');
  try {
    return JSON.parse(await readFile(join(folder, 'config.json'), 'utf8'));
  } catch (thrown) {
    throw refuse(`its config.json cannot be read: ${reasonOf(thrown)}`);
  }
}

/**
 * Returns the names of running requests' blocks (`--router-tracking-hash`); undefined = the public hashes.
 * @throws KvRouterConfigError for a key that cannot be read; the message does not reveal the contents of the file
 */
export async function openTracking(settings: RouterSettings): Promise<TrackingHash | undefined> {
  const { routerTrackingHash, routerTrackingKeyFile: path = '', routerTrackingKeyId: keyId = '' } = settings;
  if (routerTrackingHash !== 'keyed-xxh3-v1') return undefined;
  const field = 'router_tracking_key_file';
  const key = await readFile(path).catch((thrown: unknown) => {
    throw new KvRouterConfigError(field, `--router-tracking-key-file cannot be read: ${reasonOf(thrown)}`);
  });
  if (key.length !== KEY_BYTES) {
    throw new KvRouterConfigError(field, `--router-tracking-key-file has ${key.length} bytes, not ${KEY_BYTES}`);
  }
  return createKeyedTracking({ key, keyId });
}
