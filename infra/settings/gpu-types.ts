import * as z from 'zod';

/** Facts about a type of machine with GPUs. */
export interface GpuType {
  /** Name of the GPU. */
  readonly gpu: string;
  readonly gpus: number;
  /** Memory of one GPU, MiB. */
  readonly gpuMemoryMib: number;
  readonly vcpus: number;
  readonly memoryGib: number;
  /** Highest bandwidth of the network. Small types reach it only for a while. @default unknown */
  readonly networkGbps?: number | undefined;
  /** EFA interfaces that it may have. */
  readonly efaInterfaces: number;
  /** Instance store, GB. */
  readonly storageGb: number;
  /** Family of the quota that its vCPUs count against. */
  readonly quota: QuotaFamily;
  /** List price of an hour in us-east-1, US$. @default unknown */
  readonly hourUsd?: number | undefined;
}

/** Families of types with NVIDIA GPUs: G and VT, and P. Only those of P are sold in capacity blocks. */
export const QUOTA_FAMILIES = ['G', 'P'] as const;
export type QuotaFamily = (typeof QUOTA_FAMILIES)[number];

type Row = readonly [
  name: string,
  gpu: string,
  gpus: number,
  gpuMemoryMib: number,
  vcpus: number,
  memoryGib: number,
  networkGbps: number,
  efaInterfaces: number,
  storageGb: number,
  hourUsd: number | undefined,
];

/**
 * x86 types with whole NVIDIA GPUs. The facts are answers of `DescribeInstanceTypes` (EC2 API Reference), the prices
 * those of the page "Amazon EC2 On-Demand Pricing", Linux, us-east-1. Types with a price of `undefined` are sold in
 * capacity blocks, or their price could not be confirmed.
 */
const ROWS: readonly Row[] = [
  ['g4dn.xlarge', 'T4', 1, 16384, 4, 16, 25, 0, 125, 0.526],
  ['g4dn.2xlarge', 'T4', 1, 16384, 8, 32, 25, 0, 225, 0.752],
  ['g4dn.4xlarge', 'T4', 1, 16384, 16, 64, 25, 0, 225, 1.204],
  ['g4dn.8xlarge', 'T4', 1, 16384, 32, 128, 50, 1, 900, 2.176],
  ['g4dn.12xlarge', 'T4', 4, 16384, 48, 192, 50, 1, 900, 3.912],
  ['g4dn.16xlarge', 'T4', 1, 16384, 64, 256, 50, 1, 900, 4.352],
  ['g4dn.metal', 'T4', 8, 16384, 96, 384, 100, 1, 1800, 7.824],
  ['g5.xlarge', 'A10G', 1, 22888, 4, 16, 10, 0, 250, 1.006],
  ['g5.2xlarge', 'A10G', 1, 22888, 8, 32, 10, 0, 450, 1.212],
  ['g5.4xlarge', 'A10G', 1, 22888, 16, 64, 25, 0, 600, 1.624],
  ['g5.8xlarge', 'A10G', 1, 22888, 32, 128, 25, 1, 900, 2.448],
  ['g5.12xlarge', 'A10G', 4, 22888, 48, 192, 40, 1, 3800, 5.672],
  ['g5.16xlarge', 'A10G', 1, 22888, 64, 256, 25, 1, 1900, 4.096],
  ['g5.24xlarge', 'A10G', 4, 22888, 96, 384, 50, 1, 3800, 8.144],
  ['g5.48xlarge', 'A10G', 8, 22888, 192, 768, 100, 1, 7600, 16.288],
  ['g6.xlarge', 'L4', 1, 22888, 4, 16, 10, 0, 250, 0.8048],
  ['g6.2xlarge', 'L4', 1, 22888, 8, 32, 10, 0, 450, 0.9776],
  ['g6.4xlarge', 'L4', 1, 22888, 16, 64, 25, 0, 600, 1.3232],
  ['g6.8xlarge', 'L4', 1, 22888, 32, 128, 25, 1, 900, 2.0144],
  ['g6.12xlarge', 'L4', 4, 22888, 48, 192, 40, 1, 3760, 4.6016],
  ['g6.16xlarge', 'L4', 1, 22888, 64, 256, 25, 1, 1880, 3.3968],
  ['g6.24xlarge', 'L4', 4, 22888, 96, 384, 50, 1, 3760, 6.6752],
  ['g6.48xlarge', 'L4', 8, 22888, 192, 768, 100, 1, 7520, 13.3504],
  ['g6e.xlarge', 'L40S', 1, 45776, 4, 32, 20, 0, 250, 1.861],
  ['g6e.2xlarge', 'L40S', 1, 45776, 8, 64, 20, 0, 450, 2.24208],
  ['g6e.4xlarge', 'L40S', 1, 45776, 16, 128, 20, 0, 600, 3.00424],
  ['g6e.8xlarge', 'L40S', 1, 45776, 32, 256, 25, 1, 900, 4.52856],
  ['g6e.12xlarge', 'L40S', 4, 45776, 48, 384, 100, 1, 3800, 10.49264],
  ['g6e.16xlarge', 'L40S', 1, 45776, 64, 512, 35, 1, 1900, 7.57719],
  ['g6e.24xlarge', 'L40S', 4, 45776, 96, 768, 200, 2, 3800, 15.06559],
  ['g6e.48xlarge', 'L40S', 8, 45776, 192, 1536, 400, 4, 7600, 30.13118],
  ['g7.2xlarge', 'RTX PRO 4500', 1, 32768, 8, 32, 60, 0, 440, undefined],
  ['g7.4xlarge', 'RTX PRO 4500', 1, 32768, 16, 64, 100, 0, 875, undefined],
  ['g7.8xlarge', 'RTX PRO 4500', 1, 32768, 32, 128, 100, 1, 930, undefined],
  ['g7.12xlarge', 'RTX PRO 4500', 2, 32768, 48, 192, 175, 1, 1900, undefined],
  ['g7.24xlarge', 'RTX PRO 4500', 4, 32768, 96, 384, 350, 1, 3800, undefined],
  ['g7.48xlarge', 'RTX PRO 4500', 8, 32768, 192, 768, 700, 2, 7600, undefined],
  ['g7e.2xlarge', 'RTX PRO Server 6000', 1, 98304, 8, 64, 50, 0, 1900, undefined],
  ['g7e.4xlarge', 'RTX PRO Server 6000', 1, 98304, 16, 128, 50, 0, 1900, undefined],
  ['g7e.8xlarge', 'RTX PRO Server 6000', 1, 98304, 32, 256, 100, 1, 1900, undefined],
  ['g7e.12xlarge', 'RTX PRO Server 6000', 2, 98304, 48, 512, 400, 1, 3800, 8.28608],
  ['g7e.24xlarge', 'RTX PRO Server 6000', 4, 98304, 96, 1024, 800, 2, 7600, 16.57216],
  ['g7e.48xlarge', 'RTX PRO Server 6000', 8, 98304, 192, 2048, 1600, 4, 15200, undefined],
  ['p4d.24xlarge', 'A100', 8, 40960, 96, 1152, 400, 4, 8000, 21.957642],
  ['p4de.24xlarge', 'A100', 8, 81920, 96, 1152, 400, 4, 8000, 27.44705],
  ['p5.4xlarge', 'H100', 1, 81920, 16, 256, 100, 1, 3800, 6.88],
  ['p5.48xlarge', 'H100', 8, 81920, 192, 2048, 3200, 32, 30400, 55.04],
  ['p5e.48xlarge', 'H200', 8, 144384, 192, 2048, 3200, 32, 30400, undefined],
  ['p5en.48xlarge', 'H200', 8, 144384, 192, 2048, 3200, 16, 30400, 63.296],
  ['p6-b200.48xlarge', 'B200', 8, 183359, 192, 2048, 3200, 8, 30400, 113.9328],
  ['p6-b300.48xlarge', 'B300', 8, 275040, 192, 4096, 6400, 16, 30400, 142.416],
];

/** Types that Stator knows, by name. */
export const GPU_TYPES: ReadonlyMap<string, GpuType> = new Map(
  ROWS.map(
    ([name, gpu, gpus, gpuMemoryMib, vcpus, memoryGib, networkGbps, efaInterfaces, storageGb, hourUsd]) =>
      [
        name,
        {
          gpu,
          gpus,
          gpuMemoryMib,
          vcpus,
          memoryGib,
          networkGbps,
          efaInterfaces,
          storageGb,
          hourUsd,
          quota: name.startsWith('p') ? 'P' : 'G',
        },
      ] as const,
  ),
);

export const TypeName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{1,30}\.[a-z0-9-]{1,20}$/, 'must be the name of a type of EC2, such as g6e.12xlarge');

const GivenType = z.strictObject({
  gpus: z.int().min(1).max(72).optional(),
  /** Memory of one GPU, MiB. */
  gpuMemoryMib: z.int().min(1).max(10_000_000).optional(),
  vcpus: z.int().min(1).max(10_000).optional(),
  memoryGib: z.int().min(1).max(100_000).optional(),
  efaInterfaces: z.int().min(0).max(64).optional(),
  quota: z.enum(QUOTA_FAMILIES).optional(),
  /** Price of an hour, US$: that of your region, or the one that you have agreed on. */
  hourUsd: z.number().min(0).max(100_000).optional(),
});

/** Facts that a type must have to be deployed. The name of a new type says its family. */
const NEEDED = ['gpus', 'gpuMemoryMib', 'vcpus', 'memoryGib'] as const;

/** Types of machines beyond those that Stator knows, or other prices of known ones. */
export const InstanceTypes = z
  .record(TypeName, GivenType)
  .default({})
  .superRefine((types, context) => {
    for (const [name, given] of Object.entries(types)) {
      if (GPU_TYPES.has(name)) continue;
      for (const field of NEEDED.filter((each) => given[each] === undefined)) {
        const message = 'is missing: Stator does not know this type, and needs its facts';
        context.addIssue({ code: 'custom', path: [name, field], message });
      }
    }
  });

/** Types of the settings. */
export type GivenTypes = z.infer<typeof InstanceTypes>;

/** Returns the facts of a type: those of the settings, else the known ones; undefined if some are unknown. */
export function typeOf(name: string, types: GivenTypes): GpuType | undefined {
  const given = Object.hasOwn(types, name) ? types[name] : undefined;
  const known = GPU_TYPES.get(name);
  const { gpus = known?.gpus, gpuMemoryMib = known?.gpuMemoryMib } = given ?? {};
  const { vcpus = known?.vcpus, memoryGib = known?.memoryGib } = given ?? {};
  if (gpus === undefined || gpuMemoryMib === undefined || vcpus === undefined || memoryGib === undefined) return;
  return {
    gpu: known?.gpu ?? 'GPU',
    gpus,
    gpuMemoryMib,
    vcpus,
    memoryGib,
    networkGbps: known?.networkGbps,
    efaInterfaces: given?.efaInterfaces ?? known?.efaInterfaces ?? 0,
    storageGb: known?.storageGb ?? 0,
    quota: given?.quota ?? known?.quota ?? (name.startsWith('p') ? 'P' : 'G'),
    hourUsd: given?.hourUsd ?? known?.hourUsd,
  };
}
