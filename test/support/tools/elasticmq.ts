import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { installOnce } from './install-once.ts';
import { cacheRoot, pathIfPresent, runCommand, type Tool } from './tool.ts';

const VERSION = '1.7.1';
const INSTALL_MS_MAX = 5 * 60_000;

/** SQS's API on the JVM, from Maven Central: a folder of jars. Needs `java` and, once, `mvn`. */
export const elasticmq: Tool = {
  name: `elasticmq ${VERSION}`,
  variable: 'STATOR_TEST_ELASTICMQ_LIB',
  neededBy: 'suites against an SQS server',
  findInstalled: async () => ((await isInstalled()) ? libOf(folder()) : undefined),
  async install() {
    await runCommand('java', ['-version'], { timeoutMs: 30_000 });
    await installOnce(folder(), isInstalled, fill);
    return libOf(folder());
  },
};

async function fill(scratchFolder: string): Promise<void> {
  await mkdir(scratchFolder, { recursive: true });
  const pom = join(scratchFolder, 'pom.xml');
  await writeFile(pom, POM);
  const args = ['-q', '-B', '-f', pom, 'dependency:copy-dependencies', '-DoutputDirectory=lib'];
  await runCommand('mvn', args, { timeoutMs: INSTALL_MS_MAX });
}

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>elasticmq-of-tests</artifactId><version>1</version>
<dependencies><dependency><groupId>org.elasticmq</groupId><artifactId>elasticmq-server_2.13</artifactId><version>${VERSION}</version></dependency></dependencies>
</project>
`;

async function isInstalled(): Promise<boolean> {
  return (await pathIfPresent(join(libOf(folder()), `elasticmq-server_2.13-${VERSION}.jar`))) !== undefined;
}

function libOf(installation: string): string {
  return join(installation, 'lib');
}

function folder(): string {
  return join(cacheRoot(), `elasticmq-${VERSION}`);
}
