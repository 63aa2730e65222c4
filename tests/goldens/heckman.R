# The Mroz labour-supply data, and what R's sampleSelection makes of them. Run in this folder: Rscript heckman.R
# Needs R with sampleSelection and jsonlite; writes mroz.csv and heckman.json. The tests need neither.
library(sampleSelection)
library(jsonlite)

data(Mroz87)
women <- Mroz87[c("lfp", "age", "faminc", "kids5", "kids618", "educ", "exper", "city", "wage")]
write.csv(women, "mroz.csv", row.names = FALSE, quote = FALSE)
women$kids <- as.numeric(women$kids5 + women$kids618 > 0)

# As in section 5.1 of Toomet & Henningsen (2008), after Greene's Econometric Analysis (2002), example 22.8
selection_equation <- lfp ~ age + I(age^2) + faminc + kids + educ
outcome_equation <- wage ~ exper + I(exper^2) + educ + city

table_of <- function(estimates, covariance) {
  list(names = names(estimates), coefficients = unname(estimates), standard_errors = unname(sqrt(diag(covariance))))
}

two_step <- function(data) {
  fit <- heckit(selection_equation, outcome_equation, data)
  covariance <- vcov(fit, part = "full")
  index <- fit$param$index
  outcome <- c(index$betaO, index$Mills)
  list(
    rows = nrow(data),
    selection = table_of(coef(fit)[index$betaS], covariance[index$betaS, index$betaS]),
    outcome = table_of(coef(fit)[outcome], covariance[outcome, outcome]),
    sigma = fit$sigma,
    rho = fit$rho,
    probit_log_likelihood = as.numeric(logLik(fit$probit))
  )
}

# Tolerances far below the defaults: the end must be an optimum to all digits.
maximum_likelihood <- function(...) {
  fit <- selection(selection_equation, outcome_equation, women, method = "ml", tol = 0, reltol = 0, gradtol = 1e-8,
                   iterlim = 500, ...)
  index <- fit$param$index
  covariance <- solve(-fit$hessian, tol = 0)  # vcov() gives up on parameters of sizes as different as these
  dimnames(covariance) <- list(names(coef(fit)), names(coef(fit)))
  list(
    rows = nrow(women),
    selection = table_of(coef(fit)[index$betaS], covariance[index$betaS, index$betaS]),
    outcome = table_of(coef(fit)[index$betaO], covariance[index$betaO, index$betaO]),
    sigma = unname(coef(fit)["sigma"]),
    rho = unname(coef(fit)["rho"]),
    sigma_rho_standard_errors = unname(sqrt(diag(covariance)[c("sigma", "rho")])),
    log_likelihood = as.numeric(logLik(fit)),
    largest_gradient = max(abs(fit$gradient)),
    ended = fit$message
  )
}
unasked <- maximum_likelihood()  # from the two-step estimates on
# The likelihood has two tops. This is the lower one; from a larger rho on, R itself finds the higher.
elsewhere <- with(unasked, c(
  setNames(selection$coefficients, selection$names), setNames(outcome$coefficients, outcome$names), sigma = 3.7, rho = 0.9
))
highest <- maximum_likelihood(start = elsewhere)

# Whole weights from 1 to 3, in turn: they must act as that many repetitions of a row.
weights <- rep_len(1:3, nrow(women))
repeated <- women[rep(seq_len(nrow(women)), weights), ]
tight <- glm.control(epsilon = 1e-15, maxit = 100)
probit_fit <- glm(selection_equation, binomial(link = "probit"), women, weights = weights, control = tight)
repeated_fit <- probit(selection_equation, data = repeated, reltol = 0, tol = 0)

goldens <- list(
  source = paste("R", getRversion(), "sampleSelection", packageVersion("sampleSelection")),
  two_step = two_step(women),
  two_step_repeated = two_step(repeated),
  maximum_likelihood = unasked,
  maximum_likelihood_highest = highest,
  weighted_probit = list(
    weights = "1, 2, 3, 1, 2, 3, ... down the rows",
    selection = table_of(coef(probit_fit), vcov(probit_fit)),  # standard errors from the expected information
    observed_standard_errors = unname(sqrt(diag(vcov(repeated_fit)))),  # ... and from the observed information
    log_likelihood = as.numeric(logLik(repeated_fit))
  )
)
write_json(goldens, "heckman.json", auto_unbox = TRUE, digits = I(17), pretty = TRUE)
