/** The health check of a container. */
export interface HealthPlan {
  /** `CMD` and the arguments, or `CMD-SHELL` and a command line for a shell. */
  readonly command: readonly string[];
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Failures in a row after which the container is unhealthy. */
  readonly retries: number;
  /** Time after the start during which failures do not count, in milliseconds. */
  readonly startPeriodMs: number;
}

/** A condition that another container of the task must meet before this one starts. */
export interface ContainerDependency {
  readonly container: string;
  readonly condition: 'START' | 'COMPLETE' | 'SUCCESS' | 'HEALTHY';
}

/** A container of a task definition, with the defaults of ECS. */
export interface ContainerPlan {
  readonly name: string;
  readonly image: string;
  readonly entryPoint: readonly string[] | undefined;
  readonly command: readonly string[] | undefined;
  readonly environment: Readonly<Record<string, string>>;
  /** References to the values of further variables, by name. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly health: HealthPlan | undefined;
  readonly isEssential: boolean;
  /** Whether the container restarts when it ends, without ending the task. */
  readonly isRestarted: boolean;
  readonly ports: readonly number[];
  readonly dependencies: readonly ContainerDependency[];
  /** Folders that the container may write, by the names of the volumes of its task. */
  readonly mounts: Readonly<Record<string, string>>;
  readonly stopTimeoutMs: number;
}

interface Definition {
  readonly Name: string;
  readonly Image: string;
  readonly EntryPoint?: readonly string[];
  readonly Command?: readonly string[];
  readonly Environment?: readonly { readonly Name: string; readonly Value: string }[];
  readonly Secrets?: readonly { readonly Name: string; readonly ValueFrom: string }[];
  readonly HealthCheck?: {
    readonly Command: readonly string[];
    readonly Interval?: number;
    readonly Timeout?: number;
    readonly Retries?: number;
    readonly StartPeriod?: number;
  };
  readonly Essential?: boolean;
  readonly RestartPolicy?: { readonly Enabled?: boolean };
  readonly PortMappings?: readonly { readonly ContainerPort: number }[];
  readonly DependsOn?: readonly {
    readonly ContainerName: string;
    readonly Condition: ContainerDependency['condition'];
  }[];
  readonly MountPoints?: readonly { readonly ContainerPath: string; readonly SourceVolume: string }[];
  readonly StopTimeout?: number;
}

/**
 * Reads a container definition of a template.
 * @param given a container definition with all values filled in
 */
export function readContainer(given: object): ContainerPlan {
  const definition = given as Definition;
  const { HealthCheck: health } = definition;
  return {
    name: definition.Name,
    image: definition.Image,
    entryPoint: definition.EntryPoint,
    command: definition.Command,
    environment: Object.fromEntries((definition.Environment ?? []).map(({ Name, Value }) => [Name, String(Value)])),
    secrets: Object.fromEntries((definition.Secrets ?? []).map(({ Name, ValueFrom }) => [Name, ValueFrom])),
    health:
      health === undefined
        ? undefined
        : {
            command: health.Command,
            intervalMs: (health.Interval ?? 30) * 1000,
            timeoutMs: (health.Timeout ?? 5) * 1000,
            retries: health.Retries ?? 3,
            startPeriodMs: (health.StartPeriod ?? 0) * 1000,
          },
    isEssential: definition.Essential ?? true,
    isRestarted: definition.RestartPolicy?.Enabled === true,
    ports: (definition.PortMappings ?? []).map(({ ContainerPort }) => ContainerPort),
    dependencies: (definition.DependsOn ?? []).map(({ ContainerName, Condition }) => ({
      container: ContainerName,
      condition: Condition,
    })),
    mounts: Object.fromEntries(
      (definition.MountPoints ?? []).map(({ ContainerPath, SourceVolume }) => [SourceVolume, ContainerPath]),
    ),
    stopTimeoutMs: (definition.StopTimeout ?? 30) * 1000,
  };
}
