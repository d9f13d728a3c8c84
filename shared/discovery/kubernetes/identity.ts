import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FleetSettings } from '../../config/index.ts';
import { DiscoveryError } from '../options.ts';
import { MAIN_CONTAINER, workerName } from './objects.ts';

/** The pod of a process, as its owner. */
export interface PodIdentity {
  readonly name: string;
  readonly uid: string;
  /** Container of the process, if each container of the pod has an object of its own. */
  readonly container?: string | undefined;
  /** Container that has the pod's own name. @default main */
  readonly mainContainer?: string | undefined;
}

/** Folder in which the downward API puts the facts of a pod. */
const POD_INFO = '/etc/podinfo';

/**
 * Reads a fact of the pod: the file of the downward API, else the variable. A process that was restored from a
 * checkpoint has the variables of another pod.
 */
export function podFact(file: string, variable: string | undefined, folder = POD_INFO): string | undefined {
  try {
    const text = readFileSync(join(folder, file), 'utf8').trim(); // some bytes, once
    if (text !== '') return text;
  } catch {
    // not mounted, as in most pods
  }
  return variable;
}

/** Returns the identity that the pod and the settings state; undefined if they state none. */
export function identityOf(settings: FleetSettings): PodIdentity | undefined {
  const name = podFact('pod_name', settings.podName);
  const uid = podFact('pod_uid', settings.podUid);
  if (name === undefined || uid === undefined) return undefined;
  const container = settings.kubeDiscoveryMode === 'container' ? settings.containerName : undefined;
  return { name, uid, container, mainContainer: settings.mainContainerName };
}

/** Name of the object of a process. */
export function objectNameOf({ name, container, mainContainer = MAIN_CONTAINER }: PodIdentity): string {
  return workerName(name, container, mainContainer);
}

/** Returns the error of a process that would register, but does not know its pod. */
export function noIdentity(): DiscoveryError {
  const hint = 'set POD_NAME and POD_UID from metadata.name and metadata.uid of the pod (downward API)';
  return new DiscoveryError('misconfigured', `a process registers in Kubernetes under its pod: ${hint}`);
}
