/** Published peaks of one GPU, in units a second, dense (without structured sparsity). */
export interface GpuSystem {
  /** 16-bit matrix products. */
  readonly flops: number;
  /** 8-bit matrix products; the same as `flops` where the GPU has none of its own. */
  readonly fp8Flops: number;
  readonly memoryBytes: number;
  /** To the other GPUs of its node, one direction. */
  readonly linkBytes: number;
}

const TERA = 1e12;
const GIGA = 1e9;

function gpu(teraFlops: number, fp8TeraFlops: number, memoryTeraBytes: number, linkGigaBytes: number): GpuSystem {
  return {
    flops: teraFlops * TERA,
    fp8Flops: fp8TeraFlops * TERA,
    memoryBytes: memoryTeraBytes * TERA,
    linkBytes: linkGigaBytes * GIGA,
  };
}

/** What `--aic-system` may name, by the vendor's data sheets. */
export const GPU_SYSTEMS: Readonly<Record<string, GpuSystem>> = {
  a100_sxm: gpu(312, 312, 2.039, 300),
  b200_sxm: gpu(2250, 4500, 8, 900),
  b300_sxm: gpu(2250, 4500, 8, 900),
  gb200: gpu(2500, 5000, 8, 900),
  gb300: gpu(2500, 5000, 8, 900),
  h100_sxm: gpu(989, 1979, 3.35, 450),
  h200_sxm: gpu(989, 1979, 4.8, 450),
  h20_sxm: gpu(148, 296, 4, 450),
  l40s: gpu(362, 733, 0.864, 32),
};
