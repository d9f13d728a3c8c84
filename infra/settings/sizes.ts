import * as z from 'zod';

/** Sizes in which Fargate sells: CPU units (1024 are one core) and the memory that each goes with. */
const FARGATE_MEMORY_MIB: Readonly<Record<number, readonly [first: number, last: number]>> = {
  256: [512, 2048],
  512: [1024, 4096],
  1024: [2048, 8192],
  2048: [4096, 16_384],
  4096: [8192, 30_720],
};

/** A task's size, with its defaults: only what Fargate sells passes. */
export const size = (cpu: number, memoryMiB: number) =>
  z
    .strictObject({
      /** CPU units, 1024 to a core. */
      cpu: z.literal([256, 512, 1024, 2048, 4096]).default(cpu as 256), // one of them
      memoryMiB: z.int().default(memoryMiB),
    })
    .prefault({})
    .superRefine((given, context) => {
      const [first, last] = FARGATE_MEMORY_MIB[given.cpu] ?? [0, 0];
      const isSold = given.memoryMiB === 512 || given.memoryMiB % 1024 === 0;
      if (given.memoryMiB < first || given.memoryMiB > last || !isSold) {
        const sold = `Fargate sells ${first} to ${last} MiB with cpu ${given.cpu}, in steps of 1024`;
        const message = `${sold}; it is ${given.memoryMiB}`;
        context.addIssue({ code: 'custom', path: ['memoryMiB'], message });
      }
    });

/** Sizes of the tasks that belong to no fleet. */
export const Sizes = z
  .strictObject({
    /** The one task of dev: edge, NATS and two mock workers. */
    dev: size(512, 1024),
    /** A task of the container edge: one core serves; memory holds the index, 40 bytes a block. */
    edge: size(1024, 2048),
    nats: size(512, 1024),
  })
  .prefault({});
