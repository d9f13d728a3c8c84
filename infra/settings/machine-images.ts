import * as z from 'zod';
import type { Ec2FleetSettings } from './ec2-fleets.ts';
import { Name } from './names.ts';
import { ParameterName, RootDevice } from './ssm.ts';

/** Image of AWS with driver and Docker, for x86 ("Finding the ID of a DLAMI"). */
const DLAMI = '/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id';
/** Name of the root volume in that image. */
const ROOT_DEVICE = '/dev/xvda';
/** GiB that the default base fills, and that an image of workers fills once it is unpacked. */
const FILLED_GIB = { base: 75, workerImage: 30 } as const;
/** Images of workers that a disk of 150 GiB has room for, beside the base. */
const WORKER_IMAGES_MAX = 2;
const KEEP_MAX = 20;
/** Characters of a name at Image Builder, which takes 128, without those that tell recipes apart. */
const NAME_MAX = 100;

/** Machines that may build an image: their processors, and US$ an hour in us-east-1. They need no GPU. */
const BUILDERS = {
  'm6i.xlarge': { processor: 'x86_64', hourUsd: 0.192 },
  'm6i.2xlarge': { processor: 'x86_64', hourUsd: 0.384 },
  'm7i.xlarge': { processor: 'x86_64', hourUsd: 0.2016 },
  'm7g.xlarge': { processor: 'arm64', hourUsd: 0.1632 },
  'm7g.2xlarge': { processor: 'arm64', hourUsd: 0.3264 },
} as const;
const BUILDER_TYPES = Object.keys(BUILDERS) as (keyof typeof BUILDERS)[];

/** Times at which an image may be built again. */
const REBUILDS = ['daily', 'weekly', 'monthly'] as const;

const MachineImage = z.strictObject({
  /** Parameter of Systems Manager that names the image to begin with. Each build reads it again. */
  base: ParameterName.default(DLAMI),
  /** Name of the root volume in that image. */
  rootDevice: RootDevice.default(ROOT_DEVICE),
  /** Type of the machine that builds the image. It must have the processor of the base. */
  instanceType: z.enum(BUILDER_TYPES).default('m6i.xlarge'),
  /** How often the image is built again, with what the base has become. @default when someone starts the pipeline */
  rebuild: z.enum(REBUILDS).optional(),
  /** Number of images that are kept. Older ones are deleted, with their snapshots. */
  keep: z.int().min(1).max(KEEP_MAX).default(3),
  /**
   * Speed at which EBS copies the image to the disk of a machine that starts, MiB/s; EBS charges for it.
   * @default none: EBS reads each block when it is first used
   */
  initializationMibs: z.int().min(100).max(300).optional(),
});

/** Images for the machines of fleets, which EC2 Image Builder makes with the images of the workers in them. */
export const MachineImages = z.record(Name, MachineImage).default({});
export type MachineImageSettings = z.infer<typeof MachineImage>;

/** Parts of the settings that say which machines start from which image. */
interface Imaged {
  readonly name: string;
  readonly machineImages: z.infer<typeof MachineImages>;
  readonly fleets: Readonly<Record<string, Ec2FleetSettings | { readonly kind: 'mock' | 'eks' }>>;
}

/** Image that the machines of a fleet start from. */
export interface StartImage {
  /** Parameter of Systems Manager that names it. */
  readonly parameter: string;
  readonly rootDevice: string;
  readonly initializationMibs?: number | undefined;
}

/** Returns the image that the machines of a fleet start from. */
export function startImageOf({ ami }: Pick<Ec2FleetSettings, 'ami'>, settings: Imaged): StartImage {
  const { parameter = DLAMI, rootDevice = ROOT_DEVICE, machineImage: name } = ami;
  const image = name === undefined ? undefined : settings.machineImages[name];
  if (name === undefined || image === undefined) return { parameter, rootDevice };
  const { rootDevice: device, initializationMibs } = image;
  return { parameter: imageParameterOf(settings, name), rootDevice: device, initializationMibs };
}

/**
 * Returns the parameter that names the newest image. Image Builder may write parameters below `/imagebuilder/` only
 * ("AWSServiceRoleForImageBuilder").
 */
export function imageParameterOf({ name: deployment }: Pick<Imaged, 'name'>, name: string): string {
  return `/imagebuilder/${deployment}/${name}`;
}

/** Returns the images of workers in a machine image: those of the fleets that name it. */
export function workerImagesIn(name: string, { fleets }: Pick<Imaged, 'fleets'>): readonly string[] {
  const images = Object.values(fleets).flatMap((fleet) =>
    fleet.kind === 'ec2' && fleet.ami.machineImage === name ? [fleet.engine.image] : [],
  );
  return [...new Set(images)];
}

/** Refuses images that no machine starts from, and fleets that an image cannot serve. */
export function checkMachineImages(given: Imaged, context: z.RefinementCtx): void {
  const refuse = (path: readonly string[], message: string) =>
    context.addIssue({ code: 'custom', path: [...path], message });
  const names = Object.keys(given.machineImages);
  for (const [name, image] of Object.entries(given.machineImages)) {
    const path = ['machineImages', name];
    const { length: count } = workerImagesIn(name, given);
    if (count === 0) refuse(path, `no fleet starts from it: set fleets.NAME.ami.machineImage to ${name}, or remove it`);
    if (count > WORKER_IMAGES_MAX)
      refuse(path, `its fleets have ${count} different engine.image: its disk has room for ${WORKER_IMAGES_MAX}`);
    const named = `${given.name}-${name}`;
    if (named.length > NAME_MAX)
      refuse(path, `its pipeline would be ${named}, which has ${named.length} characters: allowed are ${NAME_MAX}`);
    const other = names.find((each) => each !== name && each.toLowerCase() === name.toLowerCase());
    if (other !== undefined) refuse(path, `Image Builder cannot tell it from machineImages.${other}: it ignores case`);
    const { base, instanceType } = image;
    const { processor } = BUILDERS[instanceType];
    const [ofBase] = /x86_64|arm64/.exec(base) ?? [processor];
    if (ofBase !== processor)
      refuse(
        [...path, 'instanceType'],
        `${instanceType}: has ${processor} processors, and base names an image for ${ofBase}`,
      );
  }
  for (const [name, fleet] of Object.entries(given.fleets))
    if (fleet.kind === 'ec2')
      for (const [path, message] of problemsOfAmi(fleet, given)) refuse(['fleets', name, ...path], message);
}

type Refusal = readonly [path: readonly string[], message: string];

function problemsOfAmi({ ami, engine }: Ec2FleetSettings, { machineImages }: Imaged): readonly Refusal[] {
  const { machineImage: name, ...own } = ami;
  if (name === undefined) return [];
  const problems: Refusal[] = [];
  if (!Object.hasOwn(machineImages, name)) {
    const known = Object.keys(machineImages).join(', ') || 'none';
    problems.push([['ami', 'machineImage'], `${name}: names no entry of machineImages; known are ${known}`]);
  }
  for (const key of ['parameter', 'rootDevice'] as const)
    if (own[key] !== undefined) problems.push([['ami', key], `${own[key]}: machineImages.${name} has its own`]);
  if (!engine.image.includes('@')) {
    const message = `${engine.image}: ami.machineImage needs a digest; a machine would go on with what the tag was`;
    problems.push([['engine', 'image'], message]);
  }
  return problems;
}

/**
 * Returns what the price of an image follows from: GiB of its snapshot, by estimate, and the machine that builds it.
 */
export function imageCostsOf({ instanceType }: MachineImageSettings, workerImages: number) {
  const filledGib = FILLED_GIB.base + workerImages * FILLED_GIB.workerImage;
  return { filledGib, builderHourUsd: BUILDERS[instanceType].hourUsd };
}
