import * as z from 'zod';

/** Part of a request that workers do: all of it, or one half, for which the model has a fleet of each. */
export const Pool = z.enum(['agg', 'prefill', 'decode']).default('agg');

/** Suffix that tells two generations of a fleet apart. */
export const Generation = z
  .string()
  .regex(/^[a-z0-9]{1,16}$/, 'must be 1 to 16 lower-case letters and digits')
  .optional();

/** Most replicas of a fleet. */
export const REPLICAS_MAX = 4000;
/** Longest start and longest drain of a fleet. */
export const SECS_MAX = 7200;

/** Engine of the workers of a fleet with GPUs. */
export const Engine = z.strictObject({
  /** Image of the workers, on top of that of an engine (`infra/images/worker/Dockerfile`): by digest, or by a tag. */
  image: z
    .string()
    .max(400)
    .regex(
      /^[a-z0-9][a-z0-9.-]*(:\d+)?(\/[a-z0-9._-]+)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})$/,
      'must be the whole address of an image, as HOST/NAME@sha256:DIGEST or HOST/NAME:TAG',
    ),
  /** Engine that the worker starts. */
  kind: z.enum(['vllm', 'sglang']).default('vllm'),
  /** GPUs of one replica. A machine has as many replicas as its GPUs are enough for. */
  gpusPerReplica: z.int().min(1).max(72).default(1),
  /** Arguments that the engine gets as they are. */
  args: z.array(z.string().max(1000)).max(100).default([]),
});

/** Folder of a bucket, whose files never change under that name. */
export const WeightsUri = z.string().regex(/^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\/([A-Za-z0-9!_.*'()=-]+\/)+$/, {
  error: 'must be a folder of a bucket and end with /, as s3://BUCKET/FOLDER/',
});

/** ARN of the key of KMS that encrypts the bucket of weights. */
export const WeightsKey = z
  .string()
  .regex(/^arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key\/[A-Za-z0-9-]+$/, 'must be the ARN of a key of KMS')
  .optional();

/** Ways in which EC2 sells machines. */
export const Market = z.enum(['on-demand', 'spot', 'reservation', 'capacity-block']).default('on-demand');

/** Reservation, or capacity block, that machines use. */
export const ReservationId = z
  .string()
  .regex(/^cr-[0-9a-f]{8,32}$/, 'must be the id of a capacity reservation, as cr-0123456789abcdef0')
  .optional();

/** Time at which a capacity block or a reservation ends, as 2027-01-31T11:30:00Z. */
export const EndsAt = z.iso.datetime({ error: 'must be a time in UTC, as 2027-01-31T11:30:00Z' }).optional();

/** Bytes of the weights of a model. */
export const WeightBytes = z.int().min(1).max(10e12);

/** Replicas that a planner may set. */
export const Replicas = z.strictObject({
  min: z.int().min(0).max(REPLICAS_MAX).default(0),
  max: z.int().min(1).max(REPLICAS_MAX),
});

/** Kinds of fleets that a planner scales: machines of EC2, and pods of a cluster of EKS. */
export const PLANNED_KINDS = ['ec2', 'eks'] as const;

/** Whether a planner decides how many workers a fleet has. */
export function isPlanned({ kind }: { readonly kind: string }): boolean {
  return PLANNED_KINDS.some((planned) => planned === kind);
}
