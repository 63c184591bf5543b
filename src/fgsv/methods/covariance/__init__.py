"""The default method: every evaluation serves every player.

`docs/mathematics.md` derives it. To read the code, begin with the settings and the two estimators, which follow each
other in a run; what they are made of can be read one by one.

    covariance      the settings, and which estimator a game starts with
    target          the values to estimate, as sums over coalitions

The first thousand evaluations (sections 5.1 to 5.4): each coalition is drawn once, and a process predicts the others.

    opening         the estimator: rounds, epochs, fits, and what it hands over
    opening_epoch   an epoch: its law, its process, its estimate and the weight of it
    design          cells of coalitions, the law by which an epoch draws from them, the sampler
    process         the Gaussian process: covariance, fit, player values in closed form
    strongest       its term for games that the strongest member decides
    sample          what an epoch knows, and how much each draw of it counts
    clusters        draws that are left out together
    correction      leaving one out: the unbiased estimate, its error, and how epochs are combined
    prediction      what the process predicts without a correction (`plug_in`)
    choice          which coalitions are then chosen instead of drawn

A run that starts from the evaluations of earlier ones (the end of section 5):

    beginning       which of them count as draws, in which cells
    partners        draws with players who have left, and the draws of this game that resemble them
    newcomers       draws with newcomers, made of earlier ones

From then on (section 4): epochs of growing length, whose streams learn from each other.

    estimator       the estimator: rounds, epochs, refits
    epochs          an epoch: its allocation, and the sums over its draws
    history         all evaluations so far
    sizes           mean and spread of utilities at each size
    surrogate       the model that is learned: a kernel over coalitions
    embedding       and vectors of the players
    forecast        what is predicted before an epoch: by the process of the opening, or by a sum over players
    foresight       which of these forecasts serves, if any
    sums            sums over coalitions, player by player, and those of sizes that are known as a whole
    proxy           what a cheap game explains
    influence       how much each draw counts
    gains           what was gained by learning, for the report
"""

from fgsv.methods.covariance.covariance import Covariance

__all__ = ["Covariance"]
