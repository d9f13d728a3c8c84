import type { Ec2FleetSettings } from '../settings/index.ts';

/** Settings of a fleet with GPUs that its workers take as arguments. */
export interface WorkerSettings extends Pick<Ec2FleetSettings, 'engine' | 'model' | 'pool' | 'arguments'> {
  /** Place of the weights. @default none: the name of the model says where they are */
  readonly weights?: { readonly place: string; readonly isStreamed: boolean } | undefined;
}

/** Returns the arguments of each `stator worker` of a fleet. What the settings give comes last, and counts. */
export function argumentsOf(worker: WorkerSettings): readonly string[] {
  const { engine, weights, model, pool } = worker;
  const { gpusPerReplica } = engine;
  const given = [...worker.arguments, ...engine.args];
  const isGiven = (flag: string) => given.some((each) => each === flag || each.startsWith(`${flag}=`));
  const isStreamed = engine.kind === 'vllm' && weights?.isStreamed === true && !isGiven('--load-format');
  return [
    `--engine=${engine.kind}`,
    `--model=${weights === undefined ? model : weights.place}`,
    `--served-model-name=${model}`,
    ...(pool === 'agg' ? [] : [`--disaggregation-mode=${pool}`]),
    ...(gpusPerReplica === 1 || isGiven('--tensor-parallel-size') ? [] : [`--tensor-parallel-size=${gpusPerReplica}`]),
    ...(isStreamed ? ['--load-format=runai_streamer'] : []),
    ...worker.arguments,
    ...(engine.args.length === 0 ? [] : ['--', ...engine.args]),
  ];
}
