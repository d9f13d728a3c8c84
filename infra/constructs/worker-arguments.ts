import type { Ec2FleetSettings } from '../settings/index.ts';

/** Settings of a fleet with GPUs that its workers take as arguments. */
export interface WorkerSettings extends Pick<Ec2FleetSettings, 'engine' | 'model' | 'pool' | 'arguments'> {
  /** Place of the weights. @default none: the name of the model says where they are */
  readonly weights?: { readonly place: string; readonly isStreamed: boolean } | undefined;
}

/**
 * Returns the arguments of each `stator worker` of a fleet. What the settings give comes last, and counts.
 * @param ofNodes further arguments of an engine that spans several nodes
 */
export function argumentsOf(worker: WorkerSettings, ofNodes: readonly string[] = []): readonly string[] {
  const { engine, weights, model, pool } = worker;
  const { gpusPerReplica } = engine;
  const given = [...worker.arguments, ...engine.args];
  const isGiven = (flag: string) => given.some((each) => each === flag || each.startsWith(`${flag}=`));
  const isStreamed = engine.kind === 'vllm' && weights?.isStreamed === true && !isGiven('--load-format');
  const passed = [...ofNodes, ...engine.args];
  return [
    `--engine=${engine.kind}`,
    `--model=${weights === undefined ? model : weights.place}`,
    `--served-model-name=${model}`,
    ...(pool === 'agg' ? [] : [`--disaggregation-mode=${pool}`]),
    ...(gpusPerReplica === 1 || isGiven('--tensor-parallel-size') ? [] : [`--tensor-parallel-size=${gpusPerReplica}`]),
    ...(isStreamed ? ['--load-format=runai_streamer'] : []),
    ...worker.arguments,
    ...(passed.length === 0 ? [] : ['--', ...passed]),
  ];
}
