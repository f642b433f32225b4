/** A box's daemon is started when somebody asks for a box that was stopped, and answers before its egress process does. */
import { CliFailure } from '../failure.ts';

const [triesMax, pauseMs] = [40, 250];

/** @throws as `ask` does, egress_unavailable where it stays so */
export async function whenEgressAnswers<T>(ask: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask();
    } catch (failure) {
      const isAway = failure instanceof CliFailure && failure.code === 'egress_unavailable';
      if (!isAway || tries === triesMax) throw failure;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
