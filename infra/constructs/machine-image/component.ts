import { INSTALL_AGENT, INSTALL_LOG_AGENT, quote, renderPull } from '../ec2-fleet/install.ts';
import { ecrImageOf } from '../ecr-image.ts';

/** Longest time of a step, in seconds: a worker image of 10 GB arrives and unpacks in about five minutes. */
const STEP_SECS = 3600;

/**
 * Returns the document of the component that puts images of workers on a machine ("Create a custom component
 * document"). JSON is YAML, too. Image Builder runs `build` on the machine that becomes the image. It runs `test` on a
 * machine that has started from the image, and hands the image on only if that succeeds.
 */
export function renderComponent(images: readonly string[]): string {
  const document = {
    name: 'stator-worker',
    description: 'Images of workers, the agent of Stator and that of CloudWatch',
    schemaVersion: '1.0',
    phases: [
      { name: 'build', steps: [step('Install', renderInstall(images))] },
      { name: 'test', steps: [step('Check', renderCheck(images))] },
    ],
  };
  return JSON.stringify(document);
}

function step(name: string, program: string) {
  return { name, action: 'ExecuteBash', timeoutSeconds: STEP_SECS, inputs: { commands: [program] } };
}

/**
 * Returns the program that installs. The image keeps no password of a registry. The agent is that of the last image.
 */
function renderInstall(images: readonly string[]): string {
  const each = images.map((image) => `image=${quote(image)}\n${renderPull(ecrImageOf(image))}\n${INSTALL_AGENT}`);
  return `set -euo pipefail
systemctl start docker
trap 'rm -rf /root/.docker/config.json' EXIT
${each.join('\n')}
systemctl enable docker
${INSTALL_LOG_AGENT}
`;
}

function renderCheck(images: readonly string[]): string {
  return `set -euo pipefail
systemctl start docker
for image in ${images.map(quote).join(' ')}; do docker image inspect "$image" >/dev/null; done
/opt/stator/node /opt/stator/app/bin/stator.js --version
if test -e /root/.docker/config.json; then echo 'the image has a password of a registry' >&2; exit 1; fi
`;
}
