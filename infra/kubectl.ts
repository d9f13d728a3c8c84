import type { ILayerVersion } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import type { KubectlLayer } from './constructs/eks/eks-cluster.ts';
import { SettingsError } from './settings/index.ts';

/** Package with a layer that has kubectl, 37 MB. Only deployments that apply manifests need it. */
const PACKAGE = '@aws-cdk/lambda-layer-kubectl-v36';
/** Class of the package. */
const LAYER = 'KubectlV36Layer';

type LayerClass = new (scope: Construct, id: string) => ILayerVersion;

/**
 * Loads the layer with kubectl.
 * @throws SettingsError if its package is not installed
 */
export async function loadKubectl(): Promise<KubectlLayer> {
  let loaded: Readonly<Record<string, unknown>>;
  try {
    loaded = (await import(PACKAGE)) as Readonly<Record<string, unknown>>;
  } catch (thrown) {
    if (!(thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_MODULE_NOT_FOUND')) throw thrown;
    const message = `eks.apply: needs kubectl for the deployment, 37 MB: npm install --no-save ${PACKAGE}`;
    throw new SettingsError(message);
  }
  const Layer = loaded[LAYER];
  if (typeof Layer !== 'function') throw new Error(`${PACKAGE} has no ${LAYER}`);
  return (scope) => new (Layer as LayerClass)(scope, 'Kubectl');
}
