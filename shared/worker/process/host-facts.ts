import { ConfigError, type Settings } from '../../config/index.ts';
import { type HostFacts, podFact } from '../../discovery/index.ts';

/** Longest of each fact in characters. */
const CHARACTERS_MAX = 128;

/**
 * Returns the facts of `STATOR_HOST_FACTS`. Without them, the machine of a worker in Kubernetes is its pod; undefined
 * if that is not known either. An empty zone is unknown: Kubernetes fills in nothing if a pod lacks the label.
 * @throws ConfigError for another fact that is not a text of 1 to 128 characters, or without an `instance_id`
 */
export function hostFactsOf({
  hostFacts,
  podName,
}: Pick<Settings<'worker'>, 'hostFacts' | 'podName'>): HostFacts | undefined {
  if (hostFacts === undefined) {
    const pod = podFact('pod_name', podName);
    return pod === undefined ? undefined : { instance_id: pod };
  }
  const { zone, ...others } = hostFacts;
  const facts = zone === undefined || zone === '' ? others : hostFacts;
  const problems = Object.entries(facts)
    .filter(([, value]) => typeof value !== 'string' || value.length === 0 || value.length > CHARACTERS_MAX)
    .map(
      ([key, value]) =>
        `STATOR_HOST_FACTS: ${key} ${shown(value)}: allowed: a text of 1 to ${CHARACTERS_MAX} characters`,
    );
  if (facts.instance_id === undefined) problems.push('STATOR_HOST_FACTS: instance_id is required');
  if (problems.length > 0) throw new ConfigError(problems);
  return facts as unknown as HostFacts;
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'undefined';
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}
